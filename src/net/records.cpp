#include "net/records.hpp"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>

namespace collab::net {
namespace {

constexpr std::size_t kAroundText = kRecordHeaderBytes + kRecordTagBytes;

}  // namespace

RecordKeys::RecordKeys(std::unique_ptr<RecordCipher> cipher, Derive derive, std::uint64_t records_per_key)
    : cipher_(std::move(cipher)), derive_(std::move(derive)), records_per_key_(records_per_key) {}

RecordCipher& RecordKeys::next(std::span<const std::byte, kRecordHeaderBytes> header) {
  if (number_ % records_per_key_ == 0) {
    Material material = derive_(number_ / records_per_key_);
    const std::span<const std::byte, kBytes> all(material);
    cipher_->set_key(all.first<RecordCipher::kKeyBytes>());
    std::ranges::copy(all.last<sizeof iv_>(), iv_.begin());
    OPENSSL_cleanse(material.data(), material.size());
  }
  RecordCipher::Nonce nonce = iv_;
  for (std::size_t i = 0; i < sizeof number_; ++i)
    nonce[nonce.size() - 1 - i] ^= static_cast<std::byte>(number_ >> (8 * i));
  ++number_;
  cipher_->begin(nonce, header);
  return *cipher_;
}

void RecordSealer::seal_record(std::span<const std::byte> head, std::span<const std::byte> body, ByteQueue& output) {
  const std::size_t size = head.size() + body.size();
  assert(size <= kRecordBytes);
  const RecordHeader header = record_header(size);
  RecordCipher& cipher = next(header);
  const auto space = output.prepare(kAroundText + size);
  std::ranges::copy(header, space.begin());
  std::byte* at = space.data() + kRecordHeaderBytes;
  cipher.turn(head, at);
  cipher.turn(body, at + head.size());
  std::ranges::copy(cipher.finish_sealing(), at + size);
  output.commit(kAroundText + size);
}

RecordOpener::Taken RecordOpener::open(std::span<const std::byte> sealed, std::span<std::byte> room,
                                       ByteQueue& opened) {
  const std::size_t all = sealed.size();
  if (state_ != State::open) return {all};
  const bool in_place = begun_.empty() && sealed.size() >= kRecordHeaderBytes;
  if (!in_place && !complete(kRecordHeaderBytes, sealed)) return {all};
  const auto size = plaintext_bytes((in_place ? sealed : begun_.bytes()).first<kRecordHeaderBytes>());
  if (!size) {
    state_ = State::damaged;
    return {all};
  }
  const std::size_t whole = kAroundText + *size;
  if (in_place && sealed.size() >= whole) return {whole, open_record(sealed.first(whole), room, opened)};
  if (!complete(whole, sealed)) return {all};
  const std::size_t placed = open_record(begun_.bytes(), room, opened);
  begun_.consume(begun_.size());
  return {all - sealed.size(), placed};
}

bool RecordOpener::complete(std::size_t bytes, std::span<const std::byte>& sealed) {
  const std::size_t lacking = bytes - std::min(bytes, begun_.size());
  const auto more = sealed.first(std::min(lacking, sealed.size()));
  begun_.append(more);
  sealed = sealed.subspan(more.size());
  return more.size() == lacking;
}

/// Nothing of a record is shown before its tag has proved all of it. How much of it is in `room`.
std::size_t RecordOpener::open_record(std::span<const std::byte> record, std::span<std::byte> room, ByteQueue& opened) {
  const auto ciphertext = record.subspan(kRecordHeaderBytes, record.size() - kAroundText);
  const bool fits = ciphertext.size() <= room.size();
  RecordCipher& cipher = next(record.first<kRecordHeaderBytes>());
  cipher.turn(ciphertext, fits ? room.data() : opened.prepare(ciphertext.size()).data());
  RecordCipher::Tag tag;
  std::ranges::copy(record.last<kRecordTagBytes>(), tag.begin());
  if (!cipher.finish_opening(tag)) {
    state_ = State::damaged;
    return 0;
  }
  if (ciphertext.empty()) state_ = State::ended;
  if (fits) return ciphertext.size();
  opened.commit(ciphertext.size());
  return 0;
}

}  // namespace collab::net
