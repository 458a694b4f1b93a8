#include "directory/peer_record.hpp"
#include "directory/swarm_directory.hpp"
#include "support/real_node.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "support/doctest.hpp"

namespace collab::directory {
namespace {

using namespace std::chrono_literals;
using test::RealNode;

constexpr unsigned char kNodes = 14;

/// A node and its directory, on real TCP and TLS. With k = 5 ten of them are a large swarm.
struct TcpDirectory {
  explicit TcpDirectory(unsigned char number) : net(number), identity(test::identity_of(number)) {
    ServerOptions options;
    options.storage.rules.run = "test";
    options.routing.k = 5;
    options.routing.replicas = 3;
    server = std::make_unique<Server>(net.endpoint(), net.clock(), Random(number), log, net.executor(), options);
    directory =
        std::make_unique<SwarmDirectory>(net.endpoint(), net.clock(), Random(100U + number), log, net.executor(),
                                         net.executor(), identity, *server, contacts, SwarmDirectoryOptions());
    tasks = std::make_unique<TaskGroup>(net.executor(), rethrow);
  }

  void start(const std::optional<Contact>& known) {
    net.start();
    net.in_loop(begin(known));
  }
  Task<int> begin(std::optional<Contact> known) {
    PeerRecord me;
    me.listen.push_back(net.address());
    me.reachable = true;
    directory->publish(std::string(kPeerKey), "", *encode(me), 60s);
    tasks->spawn("server", server->run());
    tasks->spawn("directory", directory->run());
    if (known) directory->meet(*known);
    co_return 0;
  }
  Task<int> end() {
    co_await tasks->stop();
    co_return 0;
  }
  Task<Form> form() { co_return server->form(); }
  Task<int> publish(std::string key) {
    directory->publish(key, "", Bytes(5, std::byte(7)), 60s);
    co_return 0;
  }
  Task<std::size_t> get(std::string key) {
    const auto got = co_await directory->get(key, net.in(10s));
    co_return got ? got->size() : 0;
  }
  Contact contact() {
    Contact contact;
    contact.id = net.id();
    contact.addresses.push_back(net.address());
    return contact;
  }

  RealNode net;
  Identity identity;
  Log log;
  Contacts contacts;
  std::unique_ptr<Server> server;
  std::unique_ptr<SwarmDirectory> directory;
  std::unique_ptr<TaskGroup> tasks;
};

/// Looks every 100 ms of real time, for at most 30 s.
bool comes_true(const std::function<bool()>& what) {
  for (int i = 0; i < 300; ++i) {
    if (what()) return true;
    std::this_thread::sleep_for(100ms);
  }
  return false;
}

}  // namespace

TEST_CASE("directory on TCP: a large swarm that grew from one contact finds its records, also when a third is gone") {
  std::vector<std::unique_ptr<TcpDirectory>> nodes;
  for (unsigned char i = 1; i <= kNodes; ++i) nodes.push_back(std::make_unique<TcpDirectory>(i));
  nodes.front()->start(std::nullopt);
  const Contact first = nodes.front()->contact();
  for (std::size_t i = 1; i < nodes.size(); ++i) nodes[i]->start(first);
  const auto all_route = [&] {
    return std::all_of(nodes.begin(), nodes.end(),
                       [](const auto& node) { return node->net.in_loop(node->form()) == Form::routed; });
  };
  CHECK(comes_true(all_route));
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i]->net.in_loop(nodes[i]->publish("k" + std::to_string(i)));
  const auto finds_all = [&](std::size_t reader) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[reader]->net.in_loop(nodes[reader]->get("k" + std::to_string(i))) != 1) return false;
    }
    return true;
  };
  CHECK(comes_true([&] { return finds_all(3); }));
  // the first, whom all knew, among them; they say no good-bye
  for (std::size_t i = 0; i < 3; ++i) {
    nodes[i]->net.in_loop(nodes[i]->end());
    nodes[i]->net.stop();
  }
  CHECK(comes_true([&] { return finds_all(12); }));
  for (std::size_t i = 3; i < nodes.size(); ++i) {
    nodes[i]->net.in_loop(nodes[i]->end());
    nodes[i]->net.stop();
  }
}

}  // namespace collab::directory
