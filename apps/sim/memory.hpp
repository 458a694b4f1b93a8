#pragma once
// How the memory of a long simulation lies.

namespace collab::sim {

/// A swarm is hundreds of megabytes, of which each event touches a few hundred bytes of one peer: in pages of 4 kB the
/// processor spends a fifth of its time looking up where they are. Asks for large ones where the system gives them on
/// demand, and has freed memory stay. Before anything is allocated in earnest.
void use_large_pages();

}  // namespace collab::sim
