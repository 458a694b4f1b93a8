#pragma once
// Expected outcomes of talking to other machines, as values; and the one exception that is written for a person.

#include <boost/assert/source_location.hpp>
#include <boost/system/error_code.hpp>
#include <boost/system/result.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace collab {

/// Why an exchange with another peer did not succeed. Ordinary in a swarm, so never thrown.
/// One vocabulary for what we find out ourselves and for what a peer answers.
enum class Errc {
  busy = 1,     ///< not now: a queue or a quota is full
  late,         ///< the deadline passed; the other side may still be working
  stale,        ///< belongs to a round or an epoch that is over
  denied,       ///< the sender may not do this
  bad_request,  ///< bytes or values that no correct peer sends
  gone,         ///< the peer left, or there is no path to it
};

const boost::system::error_category& error_category() noexcept;
boost::system::error_code make_error_code(Errc) noexcept;

/// A value, or the reason why there is none. Test it, then use it: `if (!part) co_return part.error();`
template <class T = void>
using Result = boost::system::result<T>;

/// Why a peer said no, with what it added: a text for the user, and a number whose meaning follows from the code
/// (`busy`: milliseconds until a retry makes sense; `stale`: the current epoch; of a conversation 1 when it was open).
struct Refusal {
  Refusal() = default;  ///< what a result without an error answers when asked for it
  Refusal(Errc why, std::string text = {}, std::uint64_t more = 0)  // NOLINT(google-explicit-constructor)
      : code(why), reason(std::move(text)), number(more) {}
  /// Foreign codes become `gone`: what else broke was the way to the peer.
  Refusal(const boost::system::error_code& error);  // NOLINT(google-explicit-constructor)
  Errc code = Errc::bad_request;
  std::string reason;
  std::uint64_t number = 0;
};

[[noreturn]] void throw_exception_from_error(const Refusal&, const boost::source_location&);

/// How a program ends; scripts and service managers rely on these numbers.
enum class ExitCode : int {
  done = 0,              ///< finished, or left as planned
  bug = 1,               ///< our mistake; the message says how to report it
  usage = 2,             ///< wrong flags or configuration
  unreachable = 3,       ///< no node of the run answers
  not_admitted = 4,      ///< not on the allow-list, banned, or a token that expired
  incompatible = 5,      ///< other version, schema or manifest
  machine = 6,           ///< disk, memory, port, clock or GPU of this machine
  training_stopped = 7,  ///< non-finite or diverging
  data = 8,              ///< data missing or damaged
  interrupted = 130,     ///< a second Ctrl+C
};

/// Something that a person has to act on. Thrown at start-up and by owners of long work, shown by `cli/program`, never
/// thrown by protocol code. `what()` is both sentences: it is all that a program shows which nobody catches it in.
class Failure : public std::runtime_error {
 public:
  /// `cause`: what failed, and why, with measured facts. `remedy`: a command or a setting that helps. Both without a
  /// final full stop or newline; a cause may be a question.
  Failure(ExitCode code, const std::string& cause, std::string remedy);
  ExitCode code() const noexcept { return code_; }
  const std::string& cause() const noexcept { return cause_; }
  const std::string& remedy() const noexcept { return remedy_; }

 private:
  ExitCode code_;
  std::string cause_;
  std::string remedy_;
};

}  // namespace collab

template <>
struct boost::system::is_error_code_enum<collab::Errc> : std::true_type {};
