#pragma once
// Every message of the state protocol, version 1. This file is the protocol's specification; base/frame.hpp has the
// frame around it and the rules of evolution.
//
// Two calls serve everything that is fetched: `state.index` tells which bytes there are and the hash of each chunk,
// `state.chunk` gives one chunk. Chunks are numbered through all sections of an index (snapshot.hpp).

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/message.hpp"
#include "crypto/hash.hpp"
#include "state/snapshot.hpp"

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

/// What is asked for, as a number on the wire. Answered `bad_request` when the number is none of these.
enum class Kind : std::uint8_t {
  snapshot = 0,  ///< the state at the begin of `epoch`: the same bytes at every peer of that epoch
  result = 1,    ///< what a round of `epoch` committed, as opaque bytes in one section "result"; verified by the asker
  file = 2,      ///< of the run: tokenizer, prepared text; named by a hash of the manifest; one section "file"
};

/// Joiner -> donor. Refused: `stale` (number: the donor's epoch) when that epoch is over and not kept; `late` (number:
/// the donor's epoch) when it was not reached in time; `busy` (number: milliseconds) when others are being served;
/// `gone` when the donor has no such thing.
struct AskIndex {
  std::uint8_t kind = 0;    ///< a Kind
  std::uint64_t epoch = 0;  ///< of a snapshot or a result
  Digest name{};            ///< of a file
  /// How long the donor may wait until it reaches the epoch, or has the result; the call's deadline bounds it.
  std::uint32_t wait_ms = 0;
  MESSAGE_MAP(kind, epoch, name, wait_ms)
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
  MESSAGE_MAP(epoch, sections)
};

/// Joiner -> donor. Refused: `stale` (number: the donor's epoch) when it keeps nothing with this root any more; `busy`
/// as above; `bad_request` when there is no such chunk.
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

using Message = std::variant<AskIndex, ShowIndex, AskChunk, Chunk>;

/// `index`: within the bounds of snapshot.hpp.
Frame show(const Index& index);
/// An index within those bounds, with as many hashes as its sizes say. Errors: `bad_request` for any other bytes.
Result<Index> read_index(std::span<const std::byte> frame);

}  // namespace collab::state::wire
