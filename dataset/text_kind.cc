#include "dataset/text_kind.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "dataset/table_record.h"
#include "dataset/word_splitter.h"

namespace shoal::dataset {
namespace {

using namespace std::string_view_literals;
using Json = nlohmann::json;

constexpr std::size_t kLinesLookedAt = 8;

struct Signature {
  TextKind kind;
  std::string_view bytes;
};

// In order: the mark of UTF-32 begins with that of UTF-16.
constexpr Signature kSignatures[] = {
    {TextKind::kGzip, "\x1f\x8b"sv},
    {TextKind::kZstd, "\x28\xb5\x2f\xfd"sv},
    {TextKind::kXz,
     "\xfd"
     "7zXZ\0"sv},
    {TextKind::kBzip2, "BZh91AY&SY"sv},
    {TextKind::kZip, "PK\x03\x04"sv},
    {TextKind::kOldOffice, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"sv},
    {TextKind::kRtf, "{\\rtf"sv},
    {TextKind::kPdf, "%PDF-"sv},
    {TextKind::kParquet, "PAR1"sv},
    {TextKind::kArrow, "ARROW1"sv},
    {TextKind::kElf,
     "\x7f"
     "ELF"sv},
    {TextKind::kPreparedData, "SHOALDAT"sv},
    {TextKind::kUtf32Little, "\xff\xfe\0\0"sv},
    {TextKind::kUtf32Big, "\0\0\xfe\xff"sv},
    {TextKind::kUtf16Little, "\xff\xfe"sv},
    {TextKind::kUtf16Big, "\xfe\xff"sv},
};

constexpr struct {
  std::string_view suffix;
  TextKind kind;
} kSuffixes[] = {
    {".jsonl", TextKind::kJsonLines},
    {".ndjson", TextKind::kJsonLines},
    {".csv", TextKind::kCsv},
    {".tsv", TextKind::kTsv},
    {".gz", TextKind::kGzip},
    {".zst", TextKind::kZstd},
    {".xz", TextKind::kXz},
    {".bz2", TextKind::kBzip2},
    {".zip", TextKind::kZip},
    {".docx", TextKind::kZip},
    {".xlsx", TextKind::kZip},
    {".odt", TextKind::kZip},
    {".epub", TextKind::kZip},
    {".doc", TextKind::kOldOffice},
    {".xls", TextKind::kOldOffice},
    {".rtf", TextKind::kRtf},
    {".pdf", TextKind::kPdf},
    {".parquet", TextKind::kParquet},
    {".arrow", TextKind::kArrow},
    {".feather", TextKind::kArrow},
    {".shoal", TextKind::kPreparedData},
};

// What a JSON text is at its outermost level. Nothing of it is kept and the parser does not
// recurse, so its depth needs no bound.
class Outline final : public nlohmann::json_sax<Json> {
 public:
  explicit Outline(std::string_view text) {
    whole_ = Json::sax_parse(text.begin(), text.end(), this);
  }

  bool whole() const { return whole_; }            // well-formed, with nothing behind it
  std::size_t error_at() const { return error_; }  // bytes read up to the error
  bool whole_object() const { return whole_ && object_; }
  // A text, a conversation or a completion.
  bool has_sample() const { return whole_object() && sample_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool string(string_t&) override {
    sample_ = sample_ || (depth_ == 1 && string_is_sample_);
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    string_is_sample_ = object_ && (name == "text" || name == "completion" || name == "answer");
    list_is_sample_ = object_ && (name == "messages" || name == "completion");
    return true;
  }
  bool start_object(std::size_t) override {
    if (depth_++ == 0) object_ = true;
    return true;
  }
  bool end_object() override { return Leave(); }
  bool start_array(std::size_t) override {
    sample_ = sample_ || (depth_ == 1 && list_is_sample_);
    ++depth_;
    return true;
  }
  bool end_array() override { return Leave(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    error_ = position;
    return false;
  }

 private:
  bool Leave() {
    --depth_;
    return true;
  }

  std::size_t depth_ = 0;
  bool object_ = false;
  bool string_is_sample_ = false;
  bool list_is_sample_ = false;
  bool sample_ = false;
  bool whole_ = false;
  std::size_t error_ = 0;
};

// The first lines that are not blank.
std::vector<std::string_view> FirstLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty() && lines.size() < kLinesLookedAt) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") != std::string_view::npos) lines.push_back(line);
  }
  return lines;
}

bool IsJsonDocument(std::string_view text) {
  const std::string_view head = text.substr(0, kKindBytes);
  const Outline outline(head);
  return outline.whole() || (head.size() < text.size() && outline.error_at() >= head.size());
}

bool StartsObjectWithKey(std::string_view text) {
  for (const char expected : {'{', '"'}) {
    const std::size_t at = text.find_first_not_of(" \t\r\n");
    if (at == std::string_view::npos || text[at] != expected) return false;
    text.remove_prefix(at + 1);
  }
  return true;
}

// Of text whose first character is a brace or a bracket.
TextKind KindOfBraces(std::string_view text) {
  if (text[0] == '[') {
    // A damaged one, too: reading names what is wrong with it.
    if (StartsObjectWithKey(text.substr(1))) return TextKind::kJsonArray;
    return IsJsonDocument(text) ? TextKind::kJsonDocument : TextKind::kText;
  }
  const std::vector<std::string_view> lines = FirstLines(text);
  const Outline first(lines[0]);
  if (first.has_sample()) return TextKind::kJsonLines;
  if (first.whole_object() && lines.size() > 1 && Outline(lines[1]).whole_object()) {
    return TextKind::kJsonLines;
  }
  if (IsJsonDocument(text)) return TextKind::kJsonDocument;
  // The first line may be a damaged one; reading names it.
  const bool any = std::any_of(lines.begin() + 1, lines.end(),
                               [](std::string_view line) { return Outline(line).has_sample(); });
  return any ? TextKind::kJsonLines : TextKind::kText;
}

// Text in two-byte characters without a mark: half of its bytes are zero, all on one side.
TextKind KindOfZeros(std::string_view head) {
  std::array<std::size_t, 2> zeros{};
  for (std::size_t i = 0; i < head.size(); ++i) zeros[i % 2] += head[i] == '\0';
  const std::size_t pairs = head.size() / 2;
  const auto most = [pairs](std::size_t count) { return count * 10 >= pairs * 6; };
  const auto few = [pairs](std::size_t count) { return count * 100 <= pairs; };
  if (pairs > 0 && most(zeros[1]) && few(zeros[0])) return TextKind::kUtf16Little;
  if (pairs > 0 && most(zeros[0]) && few(zeros[1])) return TextKind::kUtf16Big;
  return TextKind::kBinary;
}

// A header of plain column names, one of which tables of text have, and records of as many fields.
bool IsTable(std::string_view text, TableForm form) {
  static constexpr std::string_view kColumns[] = {
      "text",       "content",     "body",     "sentence", "document", "prompt",
      "completion", "instruction", "question", "answer",   "review",   "message",
      "title",      "label",       "id",       "url"};
  text = text.substr(0, kKindBytes);
  if (text.empty()) return false;
  const auto header = TakeTableRecord(form, &text);
  if (!header.ok() || header->size() < 2 || text.empty()) return false;
  bool known = false;
  for (const std::string& name : *header) {
    const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    });
    if (!plain) return false;
    known =
        known || std::find(std::begin(kColumns), std::end(kColumns), name) != std::end(kColumns);
  }
  for (std::size_t i = 0; known && i < kLinesLookedAt && !text.empty(); ++i) {
    const auto record = TakeTableRecord(form, &text);
    const bool blank = record.ok() && record->size() == 1 && record->front().empty();
    if (!record.ok() || (!blank && record->size() != header->size())) return false;
  }
  return known;
}

// What to say of a kind that is not read; "{}" stands for the file.
struct Advice {
  std::string_view what;
  std::string_view next;
};

constexpr std::string_view kTableNext =
    "write each text as a line {\"text\": \"...\"} of a .jsonl file";

Advice AdviceFor(TextKind kind) {
  switch (kind) {
    case TextKind::kText:
    case TextKind::kJsonLines:
    case TextKind::kJsonArray: break;
    case TextKind::kJsonDocument:
      return {"one JSON document, neither a JSON object on each line nor an array of them",
              "write each text as a line {\"text\": \"...\"}; for a list under a name: jq -c "
              "'.NAME[]' {} > {}.jsonl"};
    case TextKind::kCsv: return {"a table with commas (CSV)", kTableNext};
    case TextKind::kTsv: return {"a table with tabs (TSV)", kTableNext};
    case TextKind::kGzip: return {"gzip", "unpack it first: zcat {} > {}.txt"};
    case TextKind::kZstd: return {"zstd", "unpack it first: zstdcat {} > {}.txt"};
    case TextKind::kXz: return {"xz", "unpack it first: xzcat {} > {}.txt"};
    case TextKind::kBzip2: return {"bzip2", "unpack it first: bzcat {} > {}.txt"};
    case TextKind::kZip:
      return {"a zip archive or an office document (docx, xlsx, odt, epub)",
              "unpack it, or save the document as plain text in UTF-8"};
    case TextKind::kOldOffice:
      return {"an office document (doc, xls)", "save it as plain text in UTF-8"};
    case TextKind::kRtf: return {"a document in RTF", "save it as plain text in UTF-8"};
    case TextKind::kPdf: return {"PDF", "take its text first: pdftotext {} {}.txt"};
    case TextKind::kParquet: return {"a parquet table", kTableNext};
    case TextKind::kArrow: return {"an Arrow table", kTableNext};
    case TextKind::kElf: return {"a program (ELF)", "name a text file"};
    case TextKind::kUtf16Little:
      return {"in UTF-16", "recode it first: iconv -f UTF-16LE -t UTF-8 {} > {}.txt"};
    case TextKind::kUtf16Big:
      return {"in UTF-16", "recode it first: iconv -f UTF-16BE -t UTF-8 {} > {}.txt"};
    case TextKind::kUtf32Little:
      return {"in UTF-32", "recode it first: iconv -f UTF-32LE -t UTF-8 {} > {}.txt"};
    case TextKind::kUtf32Big:
      return {"in UTF-32", "recode it first: iconv -f UTF-32BE -t UTF-8 {} > {}.txt"};
    case TextKind::kPreparedData:
      return {"prepared data already", "name the text that it was made of, or use it as it is"};
    case TextKind::kBinary:
      return {"binary data (it has zero bytes)",
              "name a text file; if it is one: tr -d '\\000' < {} > {}.txt"};
  }
  return {};
}

std::string Filled(std::string_view pattern, const std::string& path) {
  std::string text;
  for (std::size_t at; (at = pattern.find("{}")) != std::string_view::npos;) {
    text += std::string(pattern.substr(0, at)) + path;
    pattern.remove_prefix(at + 2);
  }
  return text + std::string(pattern);
}

}  // namespace

std::size_t ByteOrderMarkLength(std::string_view bytes) {
  return bytes.starts_with("\xef\xbb\xbf") ? 3 : 0;
}

TextKind KindOfText(std::string_view bytes) {
  for (const auto& [kind, signature] : kSignatures) {
    if (bytes.starts_with(signature)) return kind;
  }
  bytes.remove_prefix(ByteOrderMarkLength(bytes));
  const std::string_view head = bytes.substr(0, kKindBytes);
  if (head.find('\0') != std::string_view::npos) return KindOfZeros(head);
  const std::size_t begin = bytes.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return TextKind::kText;
  bytes.remove_prefix(begin);
  if (bytes[0] == '{' || bytes[0] == '[') return KindOfBraces(bytes);
  if (IsTable(bytes, TableForm::kCsv)) return TextKind::kCsv;
  if (IsTable(bytes, TableForm::kTsv)) return TextKind::kTsv;
  return TextKind::kText;
}

TextKind KindOfName(std::string_view path) {
  std::string name(path.substr(path.size() - std::min<std::size_t>(path.size(), 16)));
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const auto& [suffix, kind] : kSuffixes) {
    if (name.ends_with(suffix)) return kind;
  }
  return TextKind::kText;
}

Result<TextKind> ReadableKind(const std::string& path, std::string_view bytes, ReadTables tables) {
  TextKind kind = KindOfText(bytes);
  const bool by_name = kind == TextKind::kText;
  if (by_name) kind = KindOfName(path);
  const bool table = kind == TextKind::kCsv || kind == TextKind::kTsv;
  if (kind == TextKind::kText || kind == TextKind::kJsonLines || kind == TextKind::kJsonArray ||
      (table && tables == ReadTables::kYes)) {
    return kind;
  }
  const Advice advice = AdviceFor(kind);
  return InvalidArgument(path + " is " + std::string(advice.what) +
                         (by_name ? " by its name" : "") + ": " + Filled(advice.next, path));
}

Status CheckUtf8(const std::string& path, std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = Utf8Length(text.substr(at));
    if (length == 0) break;
    at += length;
    while (at < text.size() && static_cast<std::uint8_t>(text[at]) < 0x80) ++at;
  }
  if (at == text.size()) return Status::Ok();
  const auto line = 1 + std::ranges::count(text.substr(0, at), '\n');
  char byte[5];
  std::snprintf(byte, sizeof(byte), "0x%02x", static_cast<std::uint8_t>(text[at]));
  return InvalidArgument(
      path + ", line " + std::to_string(line) + ": not UTF-8 (byte " + byte + "); mend the line, " +
      Filled("or recode the file, from Latin-1 with: iconv -f LATIN1 -t UTF-8 {} > {}.txt", path));
}

Result<TextFile> OpenTextFile(const std::string& path, ReadTables tables) {
  Result<std::shared_ptr<const MappedFile>> file = MappedFile::Open(path);
  if (!file.ok()) {
    return Status(file.status().code(), file.status().message() + "; check the text's file name");
  }
  const auto bytes = (*file)->bytes();
  TextFile opened;
  opened.text = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  SHOAL_ASSIGN_OR_RETURN(opened.kind, ReadableKind(path, opened.text, tables));
  opened.text.remove_prefix(ByteOrderMarkLength(opened.text));
  // Of JSON its parser says so.
  if (opened.kind != TextKind::kJsonLines && opened.kind != TextKind::kJsonArray) {
    SHOAL_RETURN_IF_ERROR(CheckUtf8(path, opened.text));
  }
  opened.file = std::move(*file);
  return opened;
}

}  // namespace shoal::dataset
