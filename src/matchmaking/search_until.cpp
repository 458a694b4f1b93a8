#include "matchmaking/search_until.hpp"

#include "matchmaking/no_group.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>

#include <utility>

namespace collab::matchmaking {

Task<Result<Group>> search_until(Task<Result<Group>> search, Task<boost::system::error_code> over) {
  using namespace asio::experimental::awaitable_operators;
  Result<Group> group = NoGroup::late;
  const auto look = [&]() -> Task<> { group = co_await std::move(search); };
  const auto first = co_await (look() || std::move(over));
  if (first.index() == 1 && !group) co_return std::get<1>(first);
  co_return group;
}

}  // namespace collab::matchmaking
