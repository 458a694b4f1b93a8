#include "node/node.hpp"

#include "manifests.hpp"
#include "net/tcp.hpp"
#include "node/runtime.hpp"
#include "support/temp_folder.hpp"

#include <memory>

#include "support/doctest.hpp"

namespace collab::node {
namespace {

using namespace std::chrono_literals;

/// What a program does: one thread for the loop, one worker, one node.
class Process {
 public:
  Process(unsigned char number, NodeOptions options) : network_(runtime_.loop(), runtime_.clock()) {
    const NodeNeeds needs{runtime_.loop(), runtime_.workers(), runtime_.clock(), network_, Random(number), log_,
                          metrics_};
    node_ = std::make_unique<Node>(needs, test::identity(number), std::move(options));
  }
  ~Process() {
    if (tasks_) runtime_.call(tasks_->stop());
    runtime_.on_loop([this] {
      tasks_.reset();
      node_.reset();
    });
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void found(const Signed& statement) {
    runtime_.on_loop([&] { node_->found(statement); });
    start();
  }
  boost::system::result<Manifest, Refusal> join() {
    auto joined = runtime_.call(node_->join(runtime_.clock().now() + 10s));
    if (joined) start();
    return joined;
  }
  void leave() { runtime_.call(node_->leave()); }
  /// `what(node)` on the loop.
  template <class What>
  auto ask(What what) {
    decltype(what(*node_)) answer;
    runtime_.on_loop([&] { answer = what(*node_); });
    return answer;
  }
  /// How long until `what(node)` holds; 10 s at most.
  template <class What>
  Duration until(What what) {
    const TimePoint start = runtime_.clock().now();
    while (!ask(what) && runtime_.clock().now() - start < 10s) std::this_thread::sleep_for(20ms);
    return runtime_.clock().now() - start;
  }

 private:
  void start() {
    runtime_.on_loop([this] {
      tasks_ = std::make_unique<TaskGroup>(runtime_.loop(), rethrow);
      tasks_->spawn("node", node_->run());
    });
  }

  Runtime runtime_;
  net::TcpNetwork network_;
  Log log_;
  Metrics metrics_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<TaskGroup> tasks_;
};

NodeOptions options_at(const std::string& listen) {
  NodeOptions options;
  options.run.run_id = "demo";
  options.loopback_port = 0;
  options.listen = net::parse_address(listen, true).value();
  return options;
}

}  // namespace

TEST_CASE("node on TCP: a volunteer joins by address, is found reachable at once, is seen, and leaves") {
  const test::TempFolder folder;
  const Identity authority = test::identity(1);
  NodeOptions hosting = options_at("127.0.0.1:0");
  hosting.home = folder.path() / "coordinator";
  hosting.serve_directory = true;
  Process coordinator(1, hosting);
  Manifest manifest = test::manifest_of(authority);
  manifest.coordinators.clear();
  coordinator.found(sign_manifest(authority, manifest));
  const auto at = coordinator.ask([](Node& node) { return node.endpoint().listening(); });
  REQUIRE(at.size() == 1);

  NodeOptions joining = options_at("127.0.0.1:0");
  joining.home = folder.path() / "peer";
  joining.run_book = folder.path() / "runs.toml";
  PeerAddress door;
  door.address = at.front();
  joining.bootstrap.push_back(door);
  Process peer(2, joining);
  const auto joined = peer.join();
  if (!joined) MESSAGE(joined.error().reason);
  REQUIRE(joined.has_value());
  CHECK(*joined == manifest);
  const auto open = [](Node& node) { return node.reachability().state() == nat::State::open; };
  CHECK(peer.until(open) < 2s);
  CHECK(coordinator.until(open) < 2s);
  CHECK(coordinator.until([](Node& node) { return node.members().size() == 2; }) < 5s);
  CHECK(peer.until([](Node& node) { return node.members().size() == 2; }) < 5s);
  CHECK(load_manifest(joining.home / "manifest.signed").has_value());
  CHECK(read_run_book({joining.run_book}).at("demo").addresses.front().address == at.front());
  peer.leave();
  CHECK(coordinator.until([](Node& node) { return node.members().size() == 1; }) < 3s);
}

TEST_CASE("node on TCP: without a wish it takes the first free port, a taken one that was asked for is a failure") {
  NodeOptions options = options_at("127.0.0.1:0");
  options.serve_directory = true;
  const Identity authority = test::identity(1);
  const Signed statement = sign_manifest(authority, test::manifest_of(authority));
  Process first(1, options);
  first.found(statement);
  const auto taken = first.ask([](Node& node) { return node.endpoint().listening(); }).front();
  NodeOptions same = options;
  same.listen = taken;
  Process second(1, same);
  CHECK_THROWS_AS(second.found(statement), Failure);
  NodeOptions any = options;
  any.listen.reset();
  Process third(1, any);
  Process fourth(1, any);
  third.found(statement);
  fourth.found(statement);
  const auto port = [](Node& node) { return node.endpoint().listening().front().port; };
  CHECK(third.ask(port) != fourth.ask(port));
}

}  // namespace collab::node
