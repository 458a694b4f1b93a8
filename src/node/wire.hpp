#pragma once
// Every message about the run itself, version 1. This file is the protocol's specification; base/frame.hpp has the
// frame around it and the rules of evolution.
//
//   method         claim   request       answer
//   run.manifest   join    AskManifest   GiveManifest
//
// On the local network, as one UDP datagram each way, fields as in crypto/fields.hpp:
//   question   text "collab/1" | text run id
//   answer     text "collab/1" | text run id | 32 bytes id of the answerer | u16 port | 32 bytes key of the authority
// The answer is hearsay: TLS shows who listens there, the manifest's signature whose run it is.

#include "base/message.hpp"
#include "crypto/signed.hpp"

#include <cstdint>
#include <variant>

namespace collab::node::wire {

inline constexpr std::uint16_t kVersion = 1;
/// A manifest with its signature and the header of the answer.
inline constexpr std::size_t kManifestAnswerBytesMax = kSignedPayloadBytesMax + 1024;

/// "What is this run?"
struct AskManifest {
  std::uint64_t have = 0;  ///< sequence of the one the asker has; 0: none
  MESSAGE_MAP(have)
};

/// Payload: the signed manifest (crypto/signed.hpp), or nothing when the asker's is as new.
struct GiveManifest {
  std::uint64_t sequence = 0;
  MESSAGE_MAP(sequence)
};

using Header = std::variant<AskManifest, GiveManifest>;

}  // namespace collab::node::wire
