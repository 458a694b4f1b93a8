// collab-peer: joins a run and trains. Everything is in jobs/peer_main.

#include "jobs/peer_main.hpp"

int main(int argc, char** argv) {
  return collab::jobs::peer_main(collab::jobs::standard_jobs(), argc, argv);
}
