#include "nat/route.hpp"

#include "nat/address_kind.hpp"

#include <arpa/inet.h>
#include <array>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>

namespace collab::nat {
namespace {

constexpr std::uint32_t kUp = 1;
constexpr std::uint32_t kGateway = 2;

std::string dotted(std::uint32_t network_order) {
  std::array<char, INET_ADDRSTRLEN> text{};
  in_addr address{};
  address.s_addr = network_order;  // the kernel prints the word as it lies in memory
  ::inet_ntop(AF_INET, &address, text.data(), text.size());
  return text.data();
}

}  // namespace

std::optional<std::string> parse_default_router(std::string_view table) {
  std::istringstream lines{std::string(table)};
  std::string line;
  std::getline(lines, line);  // headings
  std::optional<std::string> best;
  std::uint32_t best_metric = std::numeric_limits<std::uint32_t>::max();
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string interface;
    std::uint32_t to = 0, router = 0, flags = 0, references = 0, use = 0, metric = 0, mask = 0;
    words >> interface >> std::hex >> to >> router >> flags >> std::dec >> references >> use >> metric >> std::hex >>
        mask;
    const bool is_default = words && to == 0 && mask == 0;
    if (!is_default || (flags & kUp) == 0 || (flags & kGateway) == 0 || metric >= best_metric) continue;
    best = dotted(router);
    best_metric = metric;
  }
  return best;
}

std::optional<std::string> private_router() {
  std::ifstream table("/proc/net/route");
  const std::string text{std::istreambuf_iterator<char>(table), {}};
  auto router = parse_default_router(text);
  if (router && !is_private_v4(*router)) router.reset();
  return router;
}

}  // namespace collab::nat
