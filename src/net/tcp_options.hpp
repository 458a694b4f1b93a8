#pragma once
// What a TCP socket of the operating system is asked for. Where it knows nothing of the kind, nothing happens.

#include <cstddef>
#include <cstdint>
#include <string>

namespace collab::net {

/// What it carries leaves and comes by that network interface only. False: this machine has none of the name, or does
/// not allow it. An empty name: any.
bool use_interface(int socket, const std::string& name);
/// As of `ByteStream`.
void queue_at_most(int socket, std::size_t bytes);
void pace(int socket, double bytes_per_s);
void receive_at_most(int socket, std::size_t bytes);
bool is_stranded(int socket);
/// Bytes that the other side's system has confirmed.
std::uint64_t confirmed(int socket);

}  // namespace collab::net
