#include "node/manifest.hpp"

#include "base/file.hpp"
#include "base/text.hpp"
#include "crypto/fields.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace collab::node {
namespace {

using Read = boost::system::result<Manifest, Refusal>;

constexpr std::size_t kAddressesMax = 8;

std::span<const std::byte> raw(const auto& array) {
  return std::as_bytes(std::span(array));
}

void take_into(FieldReader& reader, auto& array) {
  const auto bytes = reader.take_raw(array.size());
  std::transform(bytes.begin(), bytes.end(), array.begin(), [](std::byte b) { return static_cast<unsigned char>(b); });
}

Bytes encode_fields(const Manifest& manifest) {
  FieldWriter writer;
  writer.add_text(manifest.run_id).add_raw(raw(manifest.authority.key)).add(manifest.sequence);
  writer.add_blob(std::as_bytes(std::span(manifest.recipe))).add_raw(raw(manifest.schema));
  writer.add(manifest.target_batch).add_text(manifest.codec).add(manifest.group_size_max).add_text(manifest.grid);
  writer.add_text(manifest.mode).add(std::bit_cast<std::uint64_t>(manifest.commit_fraction));
  writer.add(static_cast<std::uint8_t>(manifest.admission));
  writer.add_raw(raw(manifest.tokenizer)).add_raw(raw(manifest.data));
  writer.add(static_cast<std::uint8_t>(manifest.coordinators.size()));
  for (const Contact& contact : manifest.coordinators) {
    writer.add_raw(raw(contact.peer.key)).add(static_cast<std::uint8_t>(contact.addresses.size()));
    for (const net::Address& address : contact.addresses) writer.add_text(net::to_string(address));
  }
  writer.add(manifest.version_min);
  return writer.finish();
}

Refusal malformed(std::string why) {
  return Refusal(Errc::bad_request, "the manifest is malformed: " + std::move(why));
}

boost::system::result<Contact, Refusal> take_contact(FieldReader& reader) {
  Contact contact;
  take_into(reader, contact.peer.key);
  const auto count = reader.take<std::uint8_t>();
  if (count > kAddressesMax) return malformed("a coordinator has too many addresses");
  for (std::uint8_t i = 0; i < count; ++i) {
    auto address = net::parse_address(reader.take_text());
    if (!address) return malformed("a coordinator's address cannot be read");
    contact.addresses.push_back(std::move(*address));
  }
  return contact;
}

Read check(Manifest manifest) {
  if (manifest.run_id.empty() || manifest.run_id.size() > kRunIdBytesMax) return malformed("no run id");
  if (manifest.recipe.size() > kRecipeBytesMax) return malformed("its recipe is too long");
  if (manifest.target_batch == 0 || manifest.target_batch > kTargetBatchMax)
    return malformed("target batch out of range");
  if (manifest.group_size_max < 2 || manifest.group_size_max > 64) return malformed("group size out of range");
  if (!(manifest.commit_fraction > 0 && manifest.commit_fraction <= 1))
    return malformed("commit fraction out of range");
  if (manifest.admission > Admission::token) return malformed("unknown admission");
  return manifest;
}

}  // namespace

bool Manifest::operator==(const Manifest& other) const {
  return encode_fields(*this) == encode_fields(other);
}

Signed sign_manifest(const Identity& authority, const Manifest& manifest) {
  Signed draft;
  draft.domain = Domain::manifest;
  draft.sequence = manifest.sequence;
  draft.expires_ms = std::numeric_limits<std::int64_t>::max();  // a manifest has no end
  draft.payload = encode_fields(manifest);
  return sign(authority, manifest.run_id, std::move(draft));
}

Read read_manifest(const Signed& statement, std::string_view run_id, const std::optional<PeerId>& pinned) {
  if (statement.domain != Domain::manifest) return malformed("it is another kind of statement");
  if (pinned && statement.signer != *pinned) {
    return Refusal(Errc::denied, fmt::format("run {} here belongs to {}, not to {} which is pinned", run_id,
                                             statement.signer.text(), pinned->text()));
  }
  if (!verify(statement, run_id)) return Refusal(Errc::denied, "the manifest's signature does not fit");

  Manifest manifest;
  FieldReader reader(statement.payload);
  manifest.run_id = reader.take_text();
  take_into(reader, manifest.authority.key);
  manifest.sequence = reader.take<std::uint64_t>();
  const auto recipe = reader.take_blob();
  manifest.recipe.assign(reinterpret_cast<const char*>(recipe.data()), recipe.size());
  take_into(reader, manifest.schema);
  manifest.target_batch = reader.take<std::uint64_t>();
  manifest.codec = reader.take_text();
  manifest.group_size_max = reader.take<std::uint32_t>();
  manifest.grid = reader.take_text();
  manifest.mode = reader.take_text();
  manifest.commit_fraction = std::bit_cast<double>(reader.take<std::uint64_t>());
  manifest.admission = static_cast<Admission>(reader.take<std::uint8_t>());
  take_into(reader, manifest.tokenizer);
  take_into(reader, manifest.data);
  const auto coordinators = reader.take<std::uint8_t>();
  if (coordinators > kCoordinatorsMax) return malformed("too many coordinators");
  for (std::uint8_t i = 0; i < coordinators; ++i) {
    auto contact = take_contact(reader);
    if (!contact) return contact.error();
    manifest.coordinators.push_back(std::move(*contact));
  }
  manifest.version_min = reader.take<std::uint32_t>();
  if (!reader.finish()) return malformed("a field is missing or bytes are left over");
  if (encode_fields(manifest) != statement.payload) return malformed("it is not in its one encoding");
  if (manifest.authority != statement.signer) return Refusal(Errc::denied, "the manifest names another authority");
  if (manifest.run_id != run_id || manifest.sequence != statement.sequence) return malformed("it is of another run");
  return check(std::move(manifest));
}

std::optional<Signed> load_manifest(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return std::nullopt;
  const Bytes bytes = read_file(file, kSignedPayloadBytesMax + 1024);
  auto statement = decode_signed(bytes);
  if (!statement) {
    throw Failure(ExitCode::incompatible, fmt::format("the run's manifest in {} is damaged", file.string()),
                  "delete that file; the run's key is then shown and pinned anew");
  }
  return std::move(*statement);
}

void save_manifest(const std::filesystem::path& file, const Signed& statement) {
  write_file(file, encode(statement));
}

}  // namespace collab::node
