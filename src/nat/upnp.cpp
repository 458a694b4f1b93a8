#include "nat/address_kind.hpp"
#include "nat/gateway.hpp"
#include "nat/protocols.hpp"
#include "nat/worker_thread.hpp"

#include <fmt/format.h>
#include <miniupnpc/miniupnpc.h>
#include <miniupnpc/upnpcommands.h>
#include <miniupnpc/upnperrors.h>

#include <array>
#include <functional>

namespace collab::nat {
namespace {

using Reason = GatewayRefusal::Why;

constexpr int kDiscoveryMs = 2000;
constexpr unsigned char kTtl = 2;
constexpr const char* kTcp = "TCP";
constexpr const char* kDescription = "collab";
constexpr int kNoSuchEntry = 714;
constexpr int kConflict = 718;
constexpr int kOnlyPermanentLeases = 725;
constexpr const char* kDeaf = "is not answered in time";

/// The host of "http://HOST:PORT/…".
std::string host_of(std::string_view url) {
  const auto slashes = url.find("//");
  if (slashes == std::string_view::npos) return {};
  url.remove_prefix(slashes + 2);
  return std::string(url.substr(0, url.find_first_of(":/")));
}

GatewayRefusal refusal_of(int code) {
  switch (code) {
    case kConflict: return {Reason::taken, "is there, but the port belongs to another machine"};
    case kOnlyPermanentLeases: return {Reason::only_permanent, "is there, but knows no leases"};
    case kNoSuchEntry: return {Reason::gone, "is there, but the mapping is not"};
    case UPNPCOMMAND_HTTP_ERROR: return {Reason::silent, kDeaf};
    default: break;
  }
  if (code < 0) return {Reason::nonsense, fmt::format("is answered with what is no answer ({})", code)};
  const char* words = strupnperror(code);
  const std::string told = words == nullptr ? "" : fmt::format(": {}", words);
  return {Reason::refused, fmt::format("is there, but refuses with error {}{}", code, told)};
}

/// The router that was found; used on the worker thread only.
class Device {
 public:
  Device() = default;
  ~Device() { FreeUPNPUrls(&urls_); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  GatewayResult<Sight> find() {
    FreeUPNPUrls(&urls_);
    urls_ = UPNPUrls();
    known_ = false;
    constexpr std::array<const char*, 5> kTypes = {
        "urn:schemas-upnp-org:device:InternetGatewayDevice:1", "urn:schemas-upnp-org:device:InternetGatewayDevice:2",
        "urn:schemas-upnp-org:service:WANIPConnection:1", "urn:schemas-upnp-org:service:WANPPPConnection:1", nullptr};
    int error = 0;  // all types at once, or each would have its own two seconds
    UPNPDev* devices = upnpDiscoverDevices(kTypes.data(), kDiscoveryMs, nullptr, nullptr, 0, 0, kTtl, &error, 1);
    if (devices == nullptr) return GatewayRefusal(Reason::absent, "is spoken by nobody in this network");
    const int kind = UPNP_GetValidIGD(devices, &urls_, &data_, own_.data(), static_cast<int>(own_.size()));
    freeUPNPDevlist(devices);
    // 1: a router; 2: one that has no public address, which the dial-back judges, not we
    if (kind != 1 && kind != 2) return GatewayRefusal(Reason::absent, "is spoken here, but not by a router");
    if (urls_.controlURL == nullptr || !is_private_v4(host_of(urls_.controlURL)))
      return GatewayRefusal(Reason::nonsense, "is answered by a device that is not of this network");
    known_ = true;
    return see();
  }

  GatewayResult<Sight> look(const MapRequest& mapped) {
    const auto entry = entry_of(mapped.outside_port);
    if (!entry) return entry.error();
    if (!is_ours(*entry, mapped)) return GatewayRefusal(Reason::gone, "is there, but the mapping is another's now");
    return see();
  }

  GatewayResult<MapReply> map(const MapRequest& wish) {
    if (!known_) return GatewayRefusal(Reason::absent, "has found no router");
    const std::string outside = std::to_string(wish.outside_port);
    const std::string inside = std::to_string(wish.inside_port);
    const std::string lease = std::to_string(wish.lease_s);
    const int code = UPNP_AddPortMapping(urls_.controlURL, service(), outside.c_str(), inside.c_str(), own_.data(),
                                         kDescription, kTcp, nullptr, lease.c_str());
    if (code != UPNPCOMMAND_SUCCESS) return refusal_of(code);
    return MapReply{wish.inside_port, wish.outside_port, wish.lease_s};
  }

  bool unmap(const MapRequest& mapped) {
    const auto entry = entry_of(mapped.outside_port);
    if (!entry) return entry.error().why == Reason::gone;
    if (!is_ours(*entry, mapped)) return true;  // nothing of ours is left there
    const std::string outside = std::to_string(mapped.outside_port);
    return UPNP_DeletePortMapping(urls_.controlURL, service(), outside.c_str(), kTcp, nullptr) == UPNPCOMMAND_SUCCESS;
  }

 private:
  struct Entry {
    std::string client;
    std::string port;
  };

  const char* service() const { return data_.first.servicetype; }
  bool is_ours(const Entry& entry, const MapRequest& mapped) const {
    return entry.client == own_.data() && entry.port == std::to_string(mapped.inside_port);
  }

  GatewayResult<Entry> entry_of(std::uint16_t outside_port) {
    if (!known_) return GatewayRefusal(Reason::absent, "has found no router");
    std::array<char, 64> client{};  // the library says how much it writes: 16, 6, 80, 4 and 16 bytes
    std::array<char, 16> port{};
    std::array<char, 128> description{};
    std::array<char, 16> enabled{};
    std::array<char, 32> lease{};
    const std::string outside = std::to_string(outside_port);
    const int code =
        UPNP_GetSpecificPortMappingEntry(urls_.controlURL, service(), outside.c_str(), kTcp, nullptr, client.data(),
                                         port.data(), description.data(), enabled.data(), lease.data());
    if (code != UPNPCOMMAND_SUCCESS) return refusal_of(code);
    return Entry{client.data(), port.data()};
  }

  /// It tells no age of its mappings: `look` asks for ours, which a restarted router has forgotten.
  GatewayResult<Sight> see() {
    Sight sight;
    std::array<char, 128> host{};
    const int code = UPNP_GetExternalIPAddress(urls_.controlURL, service(), host.data());
    if (code == UPNPCOMMAND_HTTP_ERROR) return GatewayRefusal(Reason::silent, kDeaf);
    if (code == UPNPCOMMAND_SUCCESS) sight.outside_host = host.data();
    return sight;
  }

  UPNPUrls urls_{};
  IGDdatas data_{};
  std::array<char, 64> own_{};  ///< this machine's address as the router sees it
  bool known_ = false;
};

class UpnpGateway final : public Gateway {
 public:
  UpnpGateway(const asio::any_io_executor& executor, Clock& clock) : clock_(clock), thread_(executor) {}

  Protocol protocol() const noexcept override { return Protocol::upnp; }
  Task<GatewayResult<Sight>> find(std::string /*router*/, TimePoint deadline) override {
    device_ = std::make_shared<Device>();  // a question to the one before may still be on its way
    return ask<Sight>(deadline, [device = device_] { return device->find(); });
  }
  Task<GatewayResult<Sight>> look(MapRequest mapped, TimePoint deadline) override {
    return ask<Sight>(deadline, [device = device_, mapped] { return device->look(mapped); });
  }
  Task<GatewayResult<MapReply>> map(MapRequest request, TimePoint deadline) override {
    return ask<MapReply>(deadline, [device = device_, request] { return device->map(request); });
  }
  Task<bool> unmap(MapRequest mapped, TimePoint deadline) override {
    const std::function<bool()> job = [device = device_, mapped] { return device->unmap(mapped); };
    co_return (co_await thread_.ask(clock_, deadline, job)).value_or(false);
  }

 private:
  template <class T>
  Task<GatewayResult<T>> ask(TimePoint deadline, std::function<GatewayResult<T>()> job) {
    auto answer = co_await thread_.ask(clock_, deadline, std::move(job));
    if (!answer) co_return GatewayRefusal(Reason::silent, kDeaf);
    co_return std::move(*answer);
  }

  Clock& clock_;
  std::shared_ptr<Device> device_ = std::make_shared<Device>();
  WorkerThread thread_;
};

}  // namespace

std::unique_ptr<Gateway> upnp_gateway(const asio::any_io_executor& executor, Clock& clock) {
  return std::make_unique<UpnpGateway>(executor, clock);
}

}  // namespace collab::nat
