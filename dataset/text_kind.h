// TextKind: what a file is, as its bytes show it, so that nothing but text is cut into tokens.

#ifndef SHOAL_DATASET_TEXT_KIND_H_
#define SHOAL_DATASET_TEXT_KIND_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/file.h"
#include "common/status.h"

namespace shoal::dataset {

enum class TextKind : std::uint8_t {
  kText,
  kJsonLines,     // a JSON object on each line
  kJsonArray,     // one array of JSON objects
  kJsonDocument,  // any other
  kCsv,
  kTsv,
  kGzip,
  kZstd,
  kXz,
  kBzip2,
  kZip,  // also docx, xlsx, odt, epub
  kOldOffice,
  kRtf,
  kPdf,
  kParquet,
  kArrow,
  kElf,
  kUtf16Little,
  kUtf16Big,
  kUtf32Little,
  kUtf32Big,
  kPreparedData,
  kBinary,  // has zero bytes, and is none of the above
};

// How far the search for zero bytes goes, and the check that a JSON document is one.
inline constexpr std::size_t kKindBytes = std::size_t{1} << 20;

// The kind of the file with these bytes (all of them: lines of JSON may be long). A kind other than
// text is only given where it is certain: prose that begins with a brace or has commas is text.
TextKind KindOfText(std::string_view bytes);

// The kind that the end of the file's name stands for, kText if none.
TextKind KindOfName(std::string_view path);

enum class ReadTables : std::uint8_t { kNo, kYes };

// The kind to read `path` as: kText, kJsonLines, kJsonArray and, if wanted, kCsv or kTsv; for all
// else an invalid argument that says what the file is and how to make text of it. The end of the
// name counts where the bytes look like text.
Result<TextKind> ReadableKind(const std::string& path, std::string_view bytes, ReadTables tables);

// A file that samples or text are read from.
struct TextFile {
  std::shared_ptr<const MappedFile> file;
  TextKind kind = TextKind::kText;
  std::string_view text;  // of the file, without its byte-order mark
};

// Whether all of `text`, which is that of `path`, is UTF-8; the error names the line.
Status CheckUtf8(const std::string& path, std::string_view text);

// Maps `path`, which must be of a kind that ReadableKind takes, and in UTF-8 where it is no JSON.
Result<TextFile> OpenTextFile(const std::string& path, ReadTables tables);

// The UTF-8 byte-order mark at the start of `bytes`, or 0.
std::size_t ByteOrderMarkLength(std::string_view bytes);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TEXT_KIND_H_
