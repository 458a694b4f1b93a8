// collab-trainer: what collab-peer becomes where it needs a model. Everything is in jobs/peer_main.

#include "jobs/peer_main.hpp"

#include <sys/prctl.h>

int main(int argc, char** argv) {
  ::prctl(PR_SET_NAME, "collab-peer");  // as which it was started, and is looked for
  return collab::jobs::peer_main(collab::jobs::standard_jobs(), argc, argv);
}
