// The bytes of tokenizer.model: ModelProto of the SentencePiece library (Kudo and Richardson,
// 2018).
//
// Read here and not by the library: Debian's holds a copy of protobuf whose symbols break the
// protobuf of LibTorch and gRPC in the same process.

#ifndef SHOAL_DATASET_TOKENIZERS_SENTENCEPIECE_MODEL_H_
#define SHOAL_DATASET_TOKENIZERS_SENTENCEPIECE_MODEL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace shoal::dataset {

struct SentencePiece {
  enum class Type : std::uint8_t {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6,
  };
  std::string name;
  float score = 0;
  Type type = Type::kNormal;
};

struct SentencePieceModel {
  enum class Kind : std::uint8_t { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };
  std::vector<SentencePiece> pieces;  // by id
  Kind kind = Kind::kUnigram;
  bool byte_fallback = false;
  bool space_behind = false;  // "treat_whitespace_as_suffix"
  std::string begin = "<s>", end = "</s>";
  // How texts are normalised.
  std::string charsmap;
  bool prefix_space = true, remove_extra_spaces = true, escape_spaces = true;
};

// Fields that are not named here are skipped, as protobuf's readers do. Bytes that are no such
// message are an error.
Result<SentencePieceModel> ParseSentencePieceModel(std::string_view bytes);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TOKENIZERS_SENTENCEPIECE_MODEL_H_
