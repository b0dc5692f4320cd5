// TextReader: the documents of one text file, in batches that may be encoded apart.

#ifndef SHOAL_DATASET_TEXT_READER_H_
#define SHOAL_DATASET_TEXT_READER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/file.h"
#include "common/status.h"
#include "dataset/json_records.h"
#include "dataset/sha256.h"
#include "dataset/text_kind.h"
#include "dataset/tokenizer.h"

namespace shoal::dataset {

// Part of a document, cut where it makes no difference to the ids (Tokenizer::FindBreak).
struct TextPart {
  std::string_view text;
  bool starts_document = false;
};

struct TextBatch {
  std::vector<TextPart> parts;
  std::vector<std::unique_ptr<const std::string>> owned;  // where parts of JSONL point into
  std::size_t file_bytes = 0;                             // how much of the file the batch covers
};

// Sets the field "text" of a JSON object; the error says what is wrong with it.
Status ParseJsonLine(std::string_view line, std::string* text);

// Thread: one at a time.
class TextReader {
 public:
  // Objects of JSON lines or of a JSON array are a document each; any other text is one document,
  // without its byte-order mark. What is no text is an invalid argument that names it
  // (ReadableKind). `tokenizer` outlives the reader.
  static Result<TextReader> Open(const std::string& path, const Tokenizer& tokenizer);

  std::size_t size() const { return bytes_.size(); }

  // Fills *batch with about `target` bytes of file and feeds them to *hash; no bytes at the end.
  // Parts point into the reader and the batch. Empty documents are left out.
  Status Next(std::size_t target, TextBatch* batch, Sha256* hash);

 private:
  TextReader(TextFile file, const Tokenizer& tokenizer);
  void NextText(std::size_t target, TextBatch* batch);
  Status NextObjects(std::size_t target, TextBatch* batch);

  std::shared_ptr<const MappedFile> file_;
  const Tokenizer* tokenizer_;
  std::string_view bytes_;
  TextKind kind_;
  JsonRecords records_;
  std::size_t position_ = 0;
};

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TEXT_READER_H_
