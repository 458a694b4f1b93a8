#pragma once
// Every message of the state protocol, version 1. This file is the protocol's specification; base/frame.hpp has the
// frame around it and the rules of evolution.
//
// Two calls serve everything that is fetched: `state.index` tells which bytes there are and the hash of each chunk,
// `state.chunk` gives one chunk. Chunks are numbered through all sections of an index (snapshot.hpp). Who fetches a
// snapshot gives on what it has: `state.have` tells which chunks these are. `state.pass` puts one of the first two
// questions to a donor that the asker cannot reach.

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/message.hpp"
#include "crypto/hash.hpp"
#include "crypto/peer_id.hpp"
#include "state/snapshot.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace collab::state::wire {

inline constexpr std::uint16_t kVersion = 1;
inline constexpr std::string_view kIndexMethod = "state.index";
inline constexpr std::string_view kChunkMethod = "state.chunk";
inline constexpr std::string_view kHaveMethod = "state.have";
inline constexpr std::string_view kPassMethod = "state.pass";
inline constexpr std::size_t kSharersMax = 16;  ///< named in one answer

/// What is asked for, as a number on the wire. Answered `bad_request` when the number is none of these.
enum class Kind : std::uint8_t {
  snapshot = 0,  ///< the state at the begin of `epoch`: the same bytes at every peer of that epoch
  result = 1,    ///< what a round of `epoch` committed, as opaque bytes in one section "result"; verified by the asker
  file = 2,      ///< of the run: tokenizer, prepared text; named by a hash of the manifest; one section "file"
  /// What a first group of a pass over the grid committed in `epoch`, named by its topic;
  /// otherwise as a result. Others of its cell that have none ask for it, until the epoch is over.
  first_group = 3,
};

/// Joiner -> donor. Refused: `stale` (number: the donor's epoch) when that epoch is over and not kept; `late` (number:
/// the donor's epoch) when it was not reached in time; `busy` (number: milliseconds) when too much is asked for; `gone`
/// when the donor has no such thing.
struct AskIndex {
  std::uint8_t kind = 0;    ///< a Kind
  std::uint64_t epoch = 0;  ///< of a snapshot or a result
  Digest name{};            ///< of a file or a first group
  /// How long the donor may wait until it reaches the epoch, or has the result; the call's deadline bounds it.
  std::uint32_t wait_ms = 0;
  bool shares = false;  ///< of a snapshot: the asker gives others what it has of it
  MESSAGE_MAP(kind, epoch, name, wait_ms, shares)
};

struct SectionHead {
  std::string name;         ///< at most kSectionNameBytesMax, distinct
  std::uint64_t bytes = 0;  ///< all sections together: at most kIndexedBytesMax
  MESSAGE_MAP(name, bytes)
};

/// The answer. Payload: 32 bytes per chunk, in the order of the chunks.
struct ShowIndex {
  std::uint64_t epoch = 0;            ///< 0 for a file
  std::vector<SectionHead> sections;  ///< 1..kSectionsMax
  std::vector<std::array<unsigned char, 32>> sharers =
      {};  ///< peers that fetch the same and share; at most kSharersMax
  MESSAGE_MAP(epoch, sections, sharers)
};

/// Joiner -> who has it. Refused: `stale` (number: the donor's epoch) when it keeps nothing with this root any more;
/// `busy` (number: milliseconds) when others are being served, or it does not have this chunk yet; `bad_request` when
/// there is no such chunk.
struct AskChunk {
  Digest root{};            ///< Index::root() of what was shown
  std::uint32_t chunk = 0;  ///< < Index::chunks()
  MESSAGE_MAP(root, chunk)
};

/// The answer. Payload: the chunk.
struct Chunk {
  std::uint32_t chunk = 0;
  MESSAGE_MAP(chunk)
};

/// Joiner -> joiner: which chunks of it do you have? Answered when there are more than `known`, or after `wait_ms`.
/// Refused: `stale` as above. Whoever asks shares too.
struct AskHave {
  Digest root{};
  std::uint32_t known = 0;    ///< chunks that the asker knows of
  std::uint32_t wait_ms = 0;  ///< the call's deadline bounds it
  MESSAGE_MAP(root, known, wait_ms)
};

/// The answer. Payload: a bit for each chunk, the first in the lowest bit of the first byte.
struct Have {
  std::uint32_t chunks = 0;  ///< of the index
  MESSAGE_MAP(chunks)
};

/// Joiner -> one to whom both are connected: ask `donor` this. Payload: the frame of an AskIndex or an AskChunk. The
/// answer is the donor's. Refused, but for what the donor refuses: `denied` when this node carries nothing between
/// others; `gone` when the donor is not connected to it; `busy` (number: milliseconds) when too much is asked for.
struct Pass {
  std::array<unsigned char, 32> donor{};
  MESSAGE_MAP(donor)
};

using Message = std::variant<AskIndex, ShowIndex, AskChunk, Chunk, AskHave, Have, Pass>;

/// `index`: within the bounds of snapshot.hpp. `sharers`: at most kSharersMax.
Frame show(const Index& index, const std::vector<PeerId>& sharers = {});
struct Shown {
  Index index;
  std::vector<PeerId> sharers;
};
/// An index within those bounds, with as many hashes as its sizes say. Errors: `bad_request` for any other bytes.
Result<Shown> read_index(std::span<const std::byte> frame);

Frame tell(const std::vector<bool>& have);
/// Errors: `bad_request` for anything but `chunks` bits.
Result<std::vector<bool>> read_have(std::span<const std::byte> frame, std::size_t chunks);

}  // namespace collab::state::wire
