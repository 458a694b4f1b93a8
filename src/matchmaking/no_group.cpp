#include "matchmaking/no_group.hpp"

namespace collab::matchmaking {
namespace {

class Category final : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "matchmaking"; }
  std::string message(int code) const override {
    switch (static_cast<NoGroup>(code)) {
      case NoGroup::late: return "no group began before the deadline";
      case NoGroup::alone: return "nobody else is here to average with";
      case NoGroup::no_quorum: return "fewer than half of the current peers could be found";
      case NoGroup::begun: return "the group of this epoch began without this peer";
      case NoGroup::schema_differs: return "schema differs: the other peers train other tensors";
      case NoGroup::codec_map_differs: return "codec map differs: the other peers encode values otherwise";
      case NoGroup::left: return "this peer is leaving";
    }
    return "unknown reason";
  }
};

}  // namespace

boost::system::error_code make_error_code(NoGroup reason) noexcept {
  static const Category category;
  return {static_cast<int>(reason), category};
}

}  // namespace collab::matchmaking
