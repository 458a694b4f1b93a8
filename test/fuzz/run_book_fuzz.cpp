// The user's run book: any file is refused with its line, or each of its entries is the same when it is written into a
// new book and read again.
#include "node/run_book.hpp"
#include "support.hpp"

namespace collab::fuzz::run_book_target {

COLLAB_FUZZ_TARGET(run_book) {
  using fuzz::require;
  static fuzz::InputFile file;
  file.put(fuzz::bytes_of(data, size));
  try {
    const node::RunBook book = node::read_run_book({file.path()});
    if (book.empty()) return 0;
    const auto& [run_id, entry] = *book.begin();
    require(node::is_run_id(run_id) && !entry.addresses.empty());
    require(entry.addresses.size() <= node::kLinkAddressesMax);
    static const fuzz::InputFolder folder;
    const auto copy = folder.path() / "runs.toml";
    std::filesystem::remove(copy);
    require(node::remember_run(copy, run_id, entry));
    require(node::read_run_book({copy}).at(run_id) == entry);
  } catch (const Failure& failure) {
    require(failure.code() == ExitCode::usage);
  }
  return 0;
}

}  // namespace collab::fuzz::run_book_target
