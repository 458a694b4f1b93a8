#include "nat/address_kind.hpp"

#include <boost/asio/ip/address.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

namespace collab::nat {
namespace {

namespace ip = boost::asio::ip;

struct Block {
  std::uint32_t net;
  unsigned length;
};

bool is_in(const ip::address_v4& host, const Block& block) {
  return (host.to_uint() ^ block.net) >> (32U - block.length) == 0;
}

constexpr std::array<Block, 5> kPrivate = {
    {{0x0a000000, 8}, {0xac100000, 12}, {0xc0a80000, 16}, {0xa9fe0000, 16}, {0x64400000, 10}}};
/// What else leads nowhere: 0/8, 127/8, 192.0.0/24, 192.0.2/24, 198.18/15, 198.51.100/24, 203.0.113/24, 224/3.
constexpr std::array<Block, 8> kNowhere = {{{0x00000000, 8},
                                            {0x7f000000, 8},
                                            {0xc0000000, 24},
                                            {0xc0000200, 24},
                                            {0xc6120000, 15},
                                            {0xc6336400, 24},
                                            {0xcb007100, 24},
                                            {0xe0000000, 3}}};

bool is_private_host(const ip::address_v4& host) {
  return std::any_of(kPrivate.begin(), kPrivate.end(), [&](const Block& block) { return is_in(host, block); });
}

bool is_public_host(const ip::address_v4& host) {
  const auto here = [&](const Block& block) { return is_in(host, block); };
  return !is_private_host(host) && std::none_of(kNowhere.begin(), kNowhere.end(), here);
}

ip::address parse_host(std::string_view host) {
  boost::system::error_code error;  // what is no address is 0.0.0.0, which is neither public nor private
  const ip::address address = ip::make_address(std::string(host), error);
  if (address.is_v6() && address.to_v6().is_v4_mapped()) return ip::make_address_v4(ip::v4_mapped, address.to_v6());
  return address;
}

}  // namespace

bool is_public(std::string_view host) {
  const ip::address address = parse_host(host);
  if (address.is_v4()) return is_public_host(address.to_v4());
  const auto bytes = address.to_v6().to_bytes();
  const bool documentation = bytes[0] == 0x20 && bytes[1] == 0x01 && bytes[2] == 0x0d && bytes[3] == 0xb8;
  return (bytes[0] & 0xe0U) == 0x20 && !documentation;
}

bool is_private_v4(std::string_view host) {
  const ip::address address = parse_host(host);
  return address.is_v4() && is_private_host(address.to_v4());
}

}  // namespace collab::nat
