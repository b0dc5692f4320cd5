#include "dataset/tokenizers/sentencepiece_model.h"

#include <bit>
#include <cmath>
#include <span>
#include <utility>

#include "common/bytes.h"

namespace shoal::dataset {
namespace {

// Field numbers of sentencepiece_model.proto.
enum ModelField : std::uint32_t { kPieces = 1, kTrainer = 2, kNormalizer = 3 };
enum PieceField : std::uint32_t { kName = 1, kScore = 2, kType = 3 };
enum TrainerField : std::uint32_t {
  kModelType = 3,
  kSpaceBehind = 24,
  kByteFallback = 35,
  kBeginPiece = 46,
  kEndPiece = 47,
};
enum NormalizerField : std::uint32_t {
  kCharsmap = 2,
  kPrefixSpace = 3,
  kRemoveExtraSpaces = 4,
  kEscapeSpaces = 5,
};

// One field of a message, by protobuf's wire format.
struct Field {
  std::uint32_t number = 0;
  std::uint64_t value = 0;  // of a varint or of fixed bytes
  std::string_view bytes;   // of what has a length
};

class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : rest_(bytes) {}

  // False at the end and where the bytes are damaged.
  bool Next(Field* field) {
    std::uint64_t key = 0;
    if (rest_.empty() || !Varint(&key)) return false;
    *field = {static_cast<std::uint32_t>(key >> 3), 0, {}};
    switch (key & 7) {
      case 0: return Varint(&field->value);
      case 1: return Fixed(8, &field->value);
      case 5: return Fixed(4, &field->value);
      case 2: break;
      default: return Damage();
    }
    std::uint64_t size = 0;
    if (!Varint(&size) || size > rest_.size()) return Damage();
    field->bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }
  bool damaged() const { return damaged_; }

 private:
  bool Damage() {
    damaged_ = true;
    return false;
  }

  bool Varint(std::uint64_t* value) {
    *value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<std::uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      *value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return true;
    }
    return Damage();
  }

  bool Fixed(std::size_t size, std::uint64_t* value) {
    if (rest_.size() < size) return Damage();
    const auto bytes = std::as_bytes(std::span(rest_));
    *value = size == 4 ? LoadLittle<std::uint32_t>(bytes.data())
                       : LoadLittle<std::uint64_t>(bytes.data());
    rest_.remove_prefix(size);
    return true;
  }

  std::string_view rest_;
  bool damaged_ = false;
};

Status Damaged() { return InvalidArgument("the bytes are no SentencePiece model"); }

template <typename Take>
Status ForEachField(std::string_view bytes, Take take) {
  FieldReader reader(bytes);
  for (Field field; reader.Next(&field);) SHOAL_RETURN_IF_ERROR(take(field));
  return reader.damaged() ? Damaged() : Status::Ok();
}

Status ParsePiece(std::string_view bytes, SentencePieceModel* model) {
  SentencePiece piece;
  SHOAL_RETURN_IF_ERROR(ForEachField(bytes, [&](const Field& field) {
    if (field.number == kName) piece.name = field.bytes;
    if (field.number == kScore) {
      piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
    }
    if (field.number == kType) {
      if (field.value < 1 || field.value > 6) return Damaged();
      piece.type = static_cast<SentencePiece::Type>(field.value);
    }
    return Status::Ok();
  }));
  if (piece.name.empty() || !std::isfinite(piece.score)) return Damaged();
  model->pieces.push_back(std::move(piece));
  return Status::Ok();
}

Status ParseTrainer(std::string_view bytes, SentencePieceModel* model) {
  return ForEachField(bytes, [model](const Field& field) {
    switch (field.number) {
      case kModelType:
        if (field.value < 1 || field.value > 4) return Damaged();
        model->kind = static_cast<SentencePieceModel::Kind>(field.value);
        break;
      case kSpaceBehind: model->space_behind = field.value != 0; break;
      case kByteFallback: model->byte_fallback = field.value != 0; break;
      case kBeginPiece: model->begin = field.bytes; break;
      case kEndPiece: model->end = field.bytes; break;
      default: break;
    }
    return Status::Ok();
  });
}

Status ParseNormalizer(std::string_view bytes, SentencePieceModel* model) {
  return ForEachField(bytes, [model](const Field& field) {
    switch (field.number) {
      case kCharsmap: model->charsmap = field.bytes; break;
      case kPrefixSpace: model->prefix_space = field.value != 0; break;
      case kRemoveExtraSpaces: model->remove_extra_spaces = field.value != 0; break;
      case kEscapeSpaces: model->escape_spaces = field.value != 0; break;
      default: break;
    }
    return Status::Ok();
  });
}

}  // namespace

Result<SentencePieceModel> ParseSentencePieceModel(std::string_view bytes) {
  SentencePieceModel model;
  SHOAL_RETURN_IF_ERROR(ForEachField(bytes, [&](const Field& field) {
    switch (field.number) {
      case kPieces: return ParsePiece(field.bytes, &model);
      case kTrainer: return ParseTrainer(field.bytes, &model);
      case kNormalizer: return ParseNormalizer(field.bytes, &model);
      default: return Status::Ok();
    }
  }));
  if (model.pieces.empty()) return Damaged();
  return model;
}

}  // namespace shoal::dataset
