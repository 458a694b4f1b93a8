#include "node/ban_file.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <utility>

namespace collab::node {
namespace {

constexpr std::string_view kVersion = "collab-ban-v1 ";
constexpr std::size_t kLineBytesMax = kVersion.size() + directory::kRecordBytesMax * 8 / 5 + 8;
constexpr const char* kRemedy = "restore it from a copy, or move it away and ban anew";

std::string line_of(const directory::SignedRecord& record) {
  const Bytes bytes = encode(record);
  return std::string(kVersion) +
         to_base32(std::span(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size())) + "\n";
}

Result<directory::SignedRecord> parse_line(std::string_view line) {
  if (!line.starts_with(kVersion)) return Errc::bad_request;
  const auto letters = from_base32(line.substr(kVersion.size()));
  if (!letters) return Errc::bad_request;
  auto record = directory::decode_record(std::as_bytes(std::span(*letters)));
  if (record && record->record.key != directory::kBanKey) return Errc::bad_request;
  return record;
}

directory::Record draft_of(const Ban& ban) {
  directory::Record draft;
  draft.key = directory::kBanKey;
  draft.subkey = target_name(ban);
  draft.sequence = ban.sequence;
  draft.expires_ms = ban.until_ms;
  return draft;
}

}  // namespace

directory::SignedRecord ban_record(const Identity& authority, std::string_view run_id, const Ban& ban) {
  directory::Record draft = draft_of(ban);
  draft.value = sign_ban(authority, run_id, ban);
  return sign_record(authority, std::string(run_id), std::move(draft));
}

directory::SignedRecord lifted_record(const Identity& authority, std::string_view run_id, const Ban& ban,
                                      std::uint64_t sequence) {
  directory::Record draft = draft_of(ban);
  draft.sequence = sequence;
  return sign_record(authority, std::string(run_id), std::move(draft));
}

std::vector<directory::SignedRecord> read_ban_file(const std::filesystem::path& file) {
  std::vector<directory::SignedRecord> records;
  if (!std::filesystem::exists(file)) return records;
  const Bytes bytes = read_file(file, kBansMax * kLineBytesMax);
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    auto record = parse_line(line);
    if (!record || records.size() == kBansMax)
      throw Failure(ExitCode::data, fmt::format("{}, line {}: no ban", file.string(), number), kRemedy);
    records.push_back(std::move(*record));
  }
  return records;
}

void add_to_ban_file(const std::filesystem::path& file, const directory::SignedRecord& record, std::int64_t now_ms) {
  auto records = read_ban_file(file);
  std::erase_if(records, [&](const directory::SignedRecord& old) {
    return old.record.subkey == record.record.subkey || old.record.expires_ms <= now_ms;
  });
  if (records.size() >= kBansMax)
    throw Failure(ExitCode::data, fmt::format("{} holds {} bans already", file.string(), kBansMax), kRemedy);
  records.push_back(record);
  std::string text;
  for (const auto& one : records) text += line_of(one);
  write_file(file, text);
}

}  // namespace collab::node
