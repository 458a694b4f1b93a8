#pragma once
// The token of a coordinator that has the run's key: it grants itself what it needs, and renews it in time.

#include "crypto/identity.hpp"
#include "crypto/signed.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace collab::coordinator {

/// Of runs that admit by token; in others there is nothing to do.
class OwnToken {
 public:
  /// `authority`: key file, read only while a token is signed. `file`: where the node looks for its token.
  /// Throws `Failure(usage)` when neither of the two is there: no peer would let this node in.
  OwnToken(std::filesystem::path authority, std::filesystem::path file, std::string run_id, const Signed& manifest,
           const PeerId& self);

  /// Writes a new one when less than half of its time is left. Cheap; call it now and then. Throws `Failure` when the
  /// first one cannot be written; later it tries again.
  void renew();

 private:
  std::filesystem::path authority_;
  std::filesystem::path file_;
  std::string run_id_;
  PeerId self_;
  bool makes_ = false;
  std::int64_t renew_at_ms_ = 0;
};

}  // namespace collab::coordinator
