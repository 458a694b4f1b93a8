#include "node/find_run.hpp"

#include "manifests.hpp"
#include "net/proxy.hpp"

#include "support/doctest.hpp"

namespace collab::node {
namespace {

using std::chrono::seconds;

Attempt attempt_at(const std::string& address, const Refusal& why, Duration waited, Source source = Source::given) {
  Attempt attempt;
  attempt.place.at = parse_peer_address(address);
  attempt.place.source = source;
  attempt.finding = finding_of(why, waited);
  attempt.text = why.reason;
  attempt.proxy_trouble = net::proxy_trouble(why).value_or(0);
  attempt.waited = waited;
  return attempt;
}

std::string said(const Attempt& attempt) {
  return describe("sahajbert", std::vector<Attempt>(1, attempt));
}

ExitCode code_of(const Attempt& attempt) {
  return to_failure("sahajbert", std::vector<Attempt>(1, attempt)).code();
}

}  // namespace

TEST_CASE("find run: nobody answers, and each address says how") {
  std::vector<Attempt> attempts;
  attempts.push_back(attempt_at("host:4600", Errc::gone, std::chrono::milliseconds(3)));
  attempts.push_back(attempt_at("host2:4600", Errc::late, seconds(5)));
  CHECK(describe("sahajbert", attempts) ==
        "cannot join sahajbert: none of 2 addresses answered (host:4600 refused, host2:4600 silent for 5 s)");
  const Failure failure = to_failure("sahajbert", attempts);
  CHECK(failure.cause().ends_with("silent for 5 s). Is it running?"));
  CHECK(failure.remedy() == "check host and port with whoever hosts it");
  CHECK(failure.code() == ExitCode::unreachable);
  CHECK(to_refusal("sahajbert", attempts).code == Errc::gone);
}

TEST_CASE("find run: without any address says how to give one") {
  const Failure failure = to_failure("demo", {});
  CHECK(failure.cause() == "cannot join demo: no address is known");
  CHECK(failure.remedy().find("--bootstrap") != std::string::npos);
}

TEST_CASE("find run: who answers and says no is quoted, and decides the exit code") {
  const auto denied = attempt_at("h:1", Refusal(Errc::denied, "banned: not on the allow-list"), seconds(0));
  CHECK(said(denied) == "cannot join sahajbert: h:1 says: banned: not on the allow-list");
  CHECK(code_of(denied) == ExitCode::not_admitted);
  CHECK(code_of(attempt_at("h:1", Refusal(Errc::denied, "version: update"), seconds(0))) == ExitCode::incompatible);
  CHECK(code_of(attempt_at("h:1", Refusal(Errc::denied, "clock: 61 s"), seconds(0))) == ExitCode::machine);
  CHECK(code_of(attempt_at("h:1", Refusal(Errc::denied, "run: another"), seconds(0))) == ExitCode::unreachable);
  const Refusal own(Errc::denied, "this node told the peer: version: update the older one");
  CHECK(attempt_at("h:1", own, seconds(0)).finding == Finding::version);
}

TEST_CASE("find run: a stranger on this machine or network decides nothing, the user's own address does") {
  const Refusal other(Errc::denied, "run: this peer takes part in run \"x\"");
  CHECK(is_final(attempt_at("h:1", other, seconds(0))));
  for (const Source source : {Source::loopback, Source::lan, Source::contact}) {
    const auto attempt = attempt_at("127.0.0.1:4600", other, seconds(0), source);
    CHECK_FALSE(is_final(attempt));
    CHECK(code_of(attempt) == ExitCode::unreachable);
    CHECK(said(attempt).find("127.0.0.1:4600 is of another run") != std::string::npos);
  }
  CHECK_FALSE(is_final(attempt_at("h:1", Refusal(Errc::busy, "full", 1000), seconds(0))));
}

TEST_CASE("find run: a proxy that stops us is told as such, and only its login is final") {
  const auto at_proxy = [](const boost::system::error_code& error) {
    return attempt_at("h:1", net::proxy_refusal(error).value(), seconds(3), Source::contact);
  };
  const auto login = at_proxy(net::proxy_status(407));
  CHECK(is_final(login));
  CHECK(said(login) == "cannot join sahajbert: the HTTP proxy: it wants a login, or another one (407)");
  CHECK(code_of(login) == ExitCode::usage);
  CHECK(code_of(at_proxy(net::ProxyFault::other_login)) == ExitCode::usage);
  const auto remedy = [](const Attempt& attempt) {
    return to_failure("sahajbert", std::vector<Attempt>(1, attempt)).remedy();
  };
  CHECK(remedy(login) == "give the right login: --proxy USER:PASSWORD@HOST:PORT");
  const auto port = at_proxy(net::proxy_status(403));
  CHECK_FALSE(is_final(port));
  CHECK(code_of(port) == ExitCode::unreachable);
  CHECK(said(port).ends_with("(h:1 not dialled, proxy: it does not allow that place or port (403))"));
  CHECK(remedy(port).find("wss://HOST:443/collab/v1") != std::string::npos);
  CHECK(remedy(at_proxy(net::ProxyFault::unreachable)).find("--proxy off") != std::string::npos);
  // of a silent place and one that the proxy forbids, the second can be helped
  const std::vector<Attempt> both = {attempt_at("h2:1", Errc::late, seconds(5)), port};
  CHECK(to_failure("sahajbert", both).remedy() == remedy(port));
}

TEST_CASE("find run: an address is tried once, with the id if somebody knows it; the list is bounded") {
  std::vector<Place> places;
  const PeerId id = test::identity(1).id();
  Place place;
  place.source = Source::run_book;
  place.at = parse_peer_address("h:1");
  add_place(places, place);
  place.source = Source::contact;
  place.at.peer = id;
  add_place(places, place);
  REQUIRE(places.size() == 1);
  CHECK(places.front().source == Source::run_book);
  CHECK(places.front().at.peer == id);
  for (std::uint16_t port = 1; port < 1000; ++port) {
    place.at.address.port = port;
    add_place(places, place);
  }
  CHECK(places.size() == kPlacesMax);
}

}  // namespace collab::node
