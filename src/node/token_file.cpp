#include "node/token_file.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "crypto/token.hpp"

#include <fmt/format.h>

#include <utility>

namespace collab::node {
namespace {

constexpr std::size_t kTokenFileBytesMax = 2048;  // a token as text, and some space

}  // namespace

std::optional<TokenFile::News> TokenFile::look() {
  if (file_.empty()) return std::nullopt;
  std::string stamp = file_stamp(file_);
  if (stamp == stamp_) return std::nullopt;
  stamp_ = std::move(stamp);
  News news;
  if (stamp_ == "-") return news;
  try {
    const Bytes bytes = read_file(file_, kTokenFileBytesMax);
    auto token = parse_token_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (token) {
      news.token = std::move(*token);
    } else {
      news.problem = fmt::format("{} holds no token: {}", file_.string(), token.error().message());
    }
  } catch (const Failure& failure) {  // a node goes on with what it has shown
    news.problem = failure.cause();
  }
  return news;
}

}  // namespace collab::node
