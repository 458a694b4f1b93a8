#pragma once
// How a group agrees on one result or on none: numbered views, holds and the commit. One peer's half, pure: messages
// and suspicions in, messages out. No clock, no network, no coroutine.
//
// A small relative of Paxos in which the value is found on the way: view v belongs to one reachable rank, a promise
// stops lower views, a Hold is an acceptance, and whoever opens a view keeps the highest acceptance it is told. Under
// crashes, false suspicion and partitions, no two peers ever commit different manifests.

#include "averaging/guard.hpp"
#include "averaging/members.hpp"
#include "averaging/wire.hpp"
#include "base/error.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace collab::averaging {

/// Views that one round may open; then it fails. An honest group needs about one per failure.
inline constexpr std::uint32_t kViewsMax = 4096;
/// How far a Refuse may carry us: nobody jumps to the last view on one word.
inline constexpr std::uint32_t kViewJumpMax = 256;

/// Every row and branch of the protocol, counted, so that a test can say that none is dead.
enum class Step : std::uint8_t {
  hold,              ///< every segment is here: accepted
  commit,            ///< as coordinator, over a quorum of Holds
  give_up_weight,    ///< as coordinator: too few samples, or none
  reopen_owner,      ///< own view again: an owner is suspected
  reopen_no_quorum,  ///< own view again: all Holds are here and they are no quorum
  reopen_no_voter,   ///< own view again: no voter is left
  succeed,           ///< the coordinator is suspected and this peer is next
  promise,           ///< a higher view: told, and silent in lower ones
  refuse,            ///< an Ask below the promise
  adopt_refusal,     ///< someone promised higher
  decide_committed,  ///< told of a commit
  decide_no_quorum,  ///< told by too few
  decide_accepted,   ///< the highest acceptance is kept
  decide_held,       ///< a segment that somebody holds is kept
  decide_disputed,   ///< a segment of which as many hold or accepted one version as another gets another owner
  decide_new_owner,  ///< a segment that nobody holds gets a new owner
  relay,             ///< a client's result goes through the coordinator
  adopt_view,        ///< a plan from its coordinator
  commit_received,
  commit_ignored,  ///< below the promise
  give_up_received,
  give_up_doubted,  ///< it hears too few of us, but we hear enough of each other: the round goes on without it
  client_alone,     ///< nobody is left to coordinate
  repeat_commit,    ///< committed, and the coordinator is suspected, or somebody does not say that it is done
  count
};
using StepCounts = std::array<std::uint32_t, static_cast<std::size_t>(Step::count)>;

/// The bytes that a Hold signs.
Bytes hold_bytes(const matchmaking::GroupId& group, std::uint32_t view, const wire::Manifest& manifest);

/// Signatures as functions, so that a model of thousands of rounds needs no curve arithmetic.
struct Seals {
  std::function<Signature(std::uint32_t view, const wire::Manifest&)> sign;
  std::function<bool(Rank, std::uint32_t view, const wire::Manifest&, const Signature&)> verify;
};
/// Errors: `bad_request` for another number of segments, ranks that do not ascend or are no voters; `denied` when the
/// signatures that are right are no quorum.
Result<> check_proof(const wire::Proof&, const Members&, const Seals&);

/// `members` and `guard` outlive it.
class Commit {
 public:
  enum class State : std::uint8_t { running, committed, failed };
  struct Message {
    Ranks to = 0;  ///< never this peer
    wire::Header header;
  };

  Commit(const matchmaking::GroupId&, const Members& members, Rank self, std::uint64_t weight_min, Seals, Guard& guard);

  /// The round begins here; what came before is remembered.
  void start();
  /// Everyone who is suspected now; replaces the last call's set.
  void suspect(Ranks suspected);
  Ranks suspected() const noexcept { return suspected_; }  ///< the blamed included
  /// They lied, or have nothing to give: suspected until the end of the round.
  void blame(Ranks liars);
  /// A complete result of segment `index` (of the manifest) is here, reduced in `view`. `weight`: the smallest of its
  /// chunks.
  void hold(std::size_t index, std::uint32_t view, const Digest&, std::uint64_t weight);
  /// Committed: says so again to them, who may not have heard it.
  void remind(Ranks them);
  /// Asks the guard again.
  void poke() { tick(); }
  /// The local deadline passed.
  void fail();

  /// A message that is refused changes nothing. Errors: `stale` (lower view, not asked for), `denied` (not its
  /// sender's to send, wrong signature), `bad_request`.
  Result<> on(Rank from, const wire::Hold&);
  Result<> on(Rank from, const wire::Ask&);
  Result<> on(Rank from, const wire::Refuse&);
  Result<> on(Rank from, const wire::Tell&);
  Result<> on(Rank from, const wire::View&);
  Result<> on(Rank from, const wire::Commit&);
  Result<> on(Rank from, const wire::GiveUp&);

  /// What to send since the last call, in order.
  std::vector<Message> take_messages() { return std::exchange(messages_, {}); }

  State state() const noexcept { return state_; }
  std::uint32_t view() const noexcept { return view_; }  ///< the highest promised
  bool acting() const noexcept { return acting_; }       ///< false between a promise and that view's plan
  std::uint32_t plan_view() const noexcept { return plan_view_; }
  std::uint32_t plans() const noexcept { return plans_; }  ///< that this peer followed, that of view 0 included
  const std::vector<wire::Assignment>& plan() const noexcept { return plan_; }
  /// The last Hold that this peer sent.
  const std::optional<wire::Accepted>& accepted() const noexcept { return accepted_; }
  /// Whom to fetch an adopted result from: its owner, or the client whose result this coordinator passes on.
  Rank source(std::size_t index) const { return sources_.at(index); }
  Rank coordinator() const noexcept { return members_.coordinator(view_); }
  /// Whose Tell this peer waits for.
  Ranks awaited_tells() const noexcept;
  /// Voters without whom a quorum agrees already: they must hold soon, or it commits without them.
  Ranks awaited_holds() const noexcept;
  /// Who must open a view: the coordinator when an owner is suspected that something is missing from, or who comes
  /// after a coordinator that is suspected itself.
  Ranks awaited_plan() const;
  /// The coordinator, when this peer has done its own and waits for the commit, or for the plan of a view it promised.
  Ranks awaited_decision() const noexcept;
  /// When committed: what, and why everyone may believe it.
  const wire::Proof& proof() const { return proof_.value(); }
  std::uint8_t give_up_reason() const noexcept { return reason_; }  ///< 0: none was given
  const StepCounts& steps() const noexcept { return steps_; }

 private:
  struct Held {
    std::uint32_t view = 0;
    Digest digest{};
    std::uint64_t weight = 0;
  };
  struct Version {  // of a segment, as told by those who hold it
    std::uint32_t view = 0;
    std::size_t holders = 0;
    Digest digest{};
    Rank holder = 0;        // the first
    bool disputed = false;  // as many hold another one of that view
  };
  struct Choice {                    // among what was accepted
    Rank holder = 0;                 // the first of those whose manifest it is
    std::set<std::size_t> disputed;  // segments of which as many accepted another version
  };
  using Plan = std::vector<wire::Assignment>;

  Ranks live() const noexcept { return members_.all & ~suspected_; }
  void count(Step step) { ++steps_[static_cast<std::size_t>(step)]; }
  void send(Ranks to, wire::Header header);
  void send_commit(Ranks to);
  void tick();
  bool act();
  bool try_hold();
  std::optional<wire::Manifest> whole() const;
  bool coordinate();
  bool commit_holds(Ranks agreeing);
  std::uint64_t weight_behind(Ranks agreeing) const;
  Ranks largest_agreement() const;
  bool open_view(Step why);
  bool decide();
  bool give_up(Step why, wire::GiveUpReason);
  Ranks awaited_for_plan() const;
  Ranks tellers() const;
  std::vector<Rank> servers() const;
  std::optional<Choice> best_accepted(const std::vector<Rank>& servers) const;
  std::vector<std::optional<Version>> best_versions(const std::vector<Rank>& servers) const;
  Rank next_owner(std::size_t index, bool but_not_now) const;
  Plan choose();
  const Held* find(std::size_t index, const Digest&) const;
  wire::Tell tell() const;
  void promise(std::uint32_t view);
  void adopt(std::uint32_t view, Plan plan, std::vector<Rank> sources);
  void finish(std::uint32_t view, wire::Proof proof);

  matchmaking::GroupId group_;
  const Members& members_;
  Rank self_;
  std::uint64_t weight_min_;
  Seals seals_;
  Guard& guard_;

  bool started_ = false;
  State state_ = State::running;
  std::uint8_t reason_ = 0;
  Ranks suspected_ = 0;  // the silent and the blamed
  Ranks silent_ = 0;     // as the last call of `suspect` said
  Ranks blamed_ = 0;
  std::uint32_t view_ = 0;
  bool acting_ = true;
  std::uint32_t plan_view_ = 0;
  std::uint32_t plans_ = 1;
  Plan plan_;
  std::vector<Rank> sources_;
  std::vector<std::vector<Held>> held_;  // by index
  std::optional<wire::Accepted> accepted_;
  std::optional<wire::Proof> proof_;
  std::map<Rank, wire::Hold> holds_;  // of view_, when it is this peer's
  bool asking_ = false;               // view_ is this peer's, and its plan waits for Tells
  std::map<Rank, wire::Tell> tells_;
  bool asked_without_voters_ = false;
  bool repeated_ = false;
  std::vector<Message> messages_;
  StepCounts steps_{};
};

}  // namespace collab::averaging
