#include "dataset/prepare/row_preview.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>

#include "dataset/word_splitter.h"

namespace shoal::dataset {
namespace {

constexpr std::size_t kPieceBytes = 400;
constexpr std::size_t kPieces = 16;

constexpr char kGreen[] = "\x1b[32m";
constexpr char kPlain[] = "\x1b[0m";

std::string EscapedByte(char c) {
  switch (c) {
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    case '\\': return "\\\\";
    default: break;
  }
  char text[8];
  std::snprintf(text, sizeof(text), "\\x%02x",
                static_cast<unsigned>(static_cast<unsigned char>(c)));
  return text;
}

// Controls of ASCII, those of Latin-1 (U+0080 to U+009F), and the marks that turn the direction of
// writing (U+202A to U+202E, U+2066 to U+2069).
bool IsControl(std::string_view character) {
  const auto byte = [character](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7f || byte(0) == '\\';
  if (character.size() == 2) return byte(0) == 0xc2 && byte(1) < 0xa0;
  if (character.size() == 3 && byte(0) == 0xe2) {
    return (byte(1) == 0x80 && byte(2) >= 0xaa && byte(2) <= 0xae) ||
           (byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9);
  }
  return false;
}

}  // namespace

Result<std::vector<PreviewPiece>> PreviewRow(const PreparedData& data, SampleId sample,
                                             const Tokenizer& tokenizer) {
  std::vector<std::int32_t> tokens, labels, segments;
  SHOAL_RETURN_IF_ERROR(data.AppendRow(sample, &tokens, &labels, &segments));
  const DataInfo& info = data.info();
  const bool classes = info.kind == DataKind::kClasses;
  std::size_t size = tokens.size();
  if (info.segmented) {
    while (size > 0 && segments[size - 1] == kPaddingSegment) --size;
  } else if (!classes) {
    // Behind the last label there is padding, or tokens without a loss, which are left out with it.
    while (size > 1 && labels[size - 1] == kIgnoreLabel && labels[size - 2] == kIgnoreLabel) --size;
  }
  std::vector<PreviewPiece> pieces;
  std::size_t sample_begin = 0, piece_begin = 0;  // of the last ones
  const auto finish = [&](std::size_t end) -> Status {
    if (pieces.empty()) return Status::Ok();
    const auto ids = std::span(tokens).first(end).subspan(sample_begin);
    SHOAL_ASSIGN_OR_RETURN(pieces.back().text,
                           DecodeBehind(tokenizer, ids, piece_begin - sample_begin));
    return Status::Ok();
  };
  for (std::size_t i = 0; i < size; ++i) {
    const bool counts = !classes && i > 0 && labels[i - 1] != kIgnoreLabel;
    const bool begins = i == 0 || (info.segmented && segments[i] != segments[i - 1]);
    if (begins || counts != pieces.back().counts) {
      SHOAL_RETURN_IF_ERROR(finish(i));
      pieces.push_back({"", counts, begins});
      piece_begin = i;
      if (begins) sample_begin = i;
    }
  }
  SHOAL_RETURN_IF_ERROR(finish(size));
  return pieces;
}

std::string Escaped(std::string_view text, std::size_t bytes_max) {
  std::string escaped;
  const std::size_t half = bytes_max / 2;
  for (std::size_t i = 0; i < text.size();) {
    if (text.size() > bytes_max && i >= half && i < text.size() - half) {
      escaped += " ... ";
      i = text.size() - half;
      continue;
    }
    const std::size_t size = Utf8Length(text.substr(i));
    const std::string_view character = text.substr(i, std::max<std::size_t>(size, 1));
    if (size > 0 && !IsControl(character)) {
      escaped += character;
    } else {
      for (const char c : character) escaped += EscapedByte(c);
    }
    i += character.size();
  }
  return escaped;
}

std::string FormatPreview(std::span<const PreviewPiece> pieces, bool colours) {
  std::string text;
  for (std::size_t i = 0; i < std::min(pieces.size(), kPieces); ++i) {
    const PreviewPiece& piece = pieces[i];
    if (piece.begins_sample && i > 0) text += " | ";
    if (piece.counts) text += colours ? kGreen : "{+";
    text += Escaped(piece.text, kPieceBytes);
    if (piece.counts) text += colours ? kPlain : "+}";
  }
  return pieces.size() > kPieces ? text + " ..." : text;
}

}  // namespace shoal::dataset
