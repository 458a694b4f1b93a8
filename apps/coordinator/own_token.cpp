#include "own_token.hpp"

#include "base/file.hpp"
#include "cli/keys.hpp"
#include "crypto/token.hpp"
#include "node/manifest.hpp"

#include <chrono>
#include <utility>

namespace collab::coordinator {
namespace {

constexpr std::int64_t kRetryMs = 60'000;

std::int64_t now_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace

OwnToken::OwnToken(std::filesystem::path authority, std::filesystem::path file, std::string run_id,
                   const Signed& statement, const PeerId& self)
    : authority_(std::move(authority)), file_(std::move(file)), run_id_(std::move(run_id)), self_(self) {
  const auto manifest = node::read_manifest(statement, run_id_, std::nullopt);
  if (!manifest || manifest->admission != Admission::token) return;  // the host says what is wrong with it
  const bool key_here = std::filesystem::exists(authority_);
  makes_ = key_here && cli::read_authority(authority_).id() == manifest->authority;
  if (makes_ || std::filesystem::exists(file_)) return;
  throw Failure(ExitCode::usage,
                "\"" + run_id_ + "\" admits by token: this home has neither one nor the run's key to make it",
                "--authority FILE, or --token FILE with one that grants join, contribute, reduce, directory, relay");
}

void OwnToken::renew() {
  const std::int64_t now = now_ms();
  if (!makes_ || now < renew_at_ms_) return;
  Token token;
  token.run_id = run_id_;
  token.peer = self_;
  token.claims = kEveryClaim;
  token.serial = static_cast<std::uint64_t>(now) << 16U;
  token.not_before_ms = now - kTokenSkewMs;
  token.expires_ms = now + kTokenLifetimeMs;
  try {
    write_file(file_, token_text(sign_token(cli::read_authority(authority_), token)));
    renew_at_ms_ = now + kTokenLifetimeMs / 2;
  } catch (const Failure&) {
    if (renew_at_ms_ == 0) throw;
    renew_at_ms_ = now + kRetryMs;  // the old one holds for hours yet
  }
}

}  // namespace collab::coordinator
