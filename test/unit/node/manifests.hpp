#pragma once
// Authorities and manifests for tests.

#include "node/manifest.hpp"

namespace collab::test {

inline Identity identity(unsigned char number) {
  Identity::Seed seed{};
  seed[0] = number;
  return Identity::generate(seed);
}

inline node::Manifest manifest_of(const Identity& authority, const std::string& run_id = "demo",
                                  std::uint64_t sequence = 1) {
  node::Manifest manifest;
  manifest.run_id = run_id;
  manifest.authority = authority.id();
  manifest.sequence = sequence;
  manifest.recipe = R"({"model":"albert"})";
  manifest.schema.fill(7);
  manifest.target_batch = 4096;
  node::Contact coordinator;
  coordinator.peer = authority.id();
  net::Address address;
  address.host = "coordinator";
  address.port = 4600;
  coordinator.addresses.push_back(address);
  manifest.coordinators.push_back(coordinator);
  return manifest;
}

}  // namespace collab::test
