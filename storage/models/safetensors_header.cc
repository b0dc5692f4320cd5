#include "storage/models/safetensors_header.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/nesting.h"
#include "storage/files/foreign_text.h"

namespace shoal::storage {
namespace {

constexpr std::string_view kMetadataKey = "__metadata__";

// Follows the grammar {name: {dtype, shape, data_offsets}, "__metadata__": {text: text}} event by
// event; the first event that does not fit stops the parser.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool number_float(double, const std::string&) override {
    return Unexpected("a number that is not an integer");
  }
  bool number_integer(std::int64_t value) override {
    // The parser calls this for negative numbers only.
    return value < 0 ? Unexpected("a negative number")
                     : number_unsigned(static_cast<std::uint64_t>(value));
  }
  bool number_unsigned(std::uint64_t value) override;
  bool string(std::string& value) override;
  bool binary(nlohmann::json::binary_t&) override { return Unexpected("binary data"); }
  bool start_object(std::size_t) override;
  bool key(std::string& name) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Refuse("the header is not JSON in UTF-8 (at byte " + std::to_string(position) + ")");
  }

  SafetensorsHeader& header() { return header_; }
  const std::string& error() const { return error_; }

 private:
  enum class State { kStart, kTop, kTensor, kShape, kOffsets, kMetadata, kEnd };

  bool Refuse(std::string error) {
    if (error_.empty()) error_ = std::move(error);
    return false;
  }
  bool Unexpected(const std::string& what) {
    if (state_ == State::kStart) return Refuse("the header is not a JSON object");
    if (state_ == State::kMetadata) return Refuse("__metadata__ holds " + what + ", not a string");
    if (state_ == State::kTop) return Refuse("entry " + Quoted(name_) + " is " + what);
    const std::string field = state_ == State::kShape     ? "shape"
                              : state_ == State::kOffsets ? "data_offsets"
                                                          : Quoted(field_);
    return Refuse("tensor " + Quoted(name_) + ": " + field + " holds " + what);
  }

  SafetensorsHeader header_;
  State state_ = State::kStart;
  std::string name_;   // of the tensor being read, or the metadata key
  std::string field_;  // of the tensor being read
  SafetensorsEntry entry_;
  std::vector<std::uint64_t> offsets_;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
  bool has_metadata_ = false;
  std::string error_;
};

bool HeaderReader::number_unsigned(std::uint64_t value) {
  if (state_ == State::kShape) {
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return Unexpected("a dimension over 2^63");
    }
    entry_.shape.push_back(static_cast<std::int64_t>(value));
    return true;
  }
  if (state_ == State::kOffsets) {
    if (offsets_.size() == 2) return Unexpected("more than two numbers");
    offsets_.push_back(value);
    return true;
  }
  return Unexpected("a number");
}

bool HeaderReader::string(std::string& value) {
  if (state_ == State::kMetadata) {
    header_.metadata[name_] = std::move(value);
    return true;
  }
  if (state_ != State::kTensor || field_ != "dtype") return Unexpected("a string");
  const std::optional<DType> dtype = DTypeOf(value);
  if (!dtype) {
    return Refuse("tensor " + Quoted(name_) + " has the unknown dtype " + Quoted(value));
  }
  entry_.dtype = *dtype;
  return true;
}

bool HeaderReader::start_object(std::size_t) {
  switch (state_) {
    case State::kStart: state_ = State::kTop; return true;
    case State::kTop:
      if (name_ == kMetadataKey) {
        state_ = State::kMetadata;
      } else {
        state_ = State::kTensor;
        entry_ = {};
        offsets_.clear();
        has_dtype_ = has_shape_ = has_offsets_ = false;
      }
      return true;
    default: return Unexpected("an object");
  }
}

bool HeaderReader::key(std::string& name) {
  if (state_ == State::kTop) {
    const bool is_metadata = name == kMetadataKey;
    if (is_metadata ? has_metadata_ : header_.tensors.count(name) != 0) {
      return Refuse("the name " + Quoted(name) + " occurs twice");
    }
    has_metadata_ = has_metadata_ || is_metadata;
    name_ = std::move(name);
    return true;
  }
  if (state_ == State::kMetadata) {
    if (header_.metadata.count(name) != 0) {
      return Refuse("the __metadata__ key " + Quoted(name) + " occurs twice");
    }
    name_ = std::move(name);
    return true;
  }
  bool* seen = name == "dtype"          ? &has_dtype_
               : name == "shape"        ? &has_shape_
               : name == "data_offsets" ? &has_offsets_
                                        : nullptr;
  if (seen == nullptr) {
    return Refuse("tensor " + Quoted(name_) + " has the unknown field " + Quoted(name));
  }
  if (*seen) return Refuse("tensor " + Quoted(name_) + ": " + name + " occurs twice");
  *seen = true;
  field_ = std::move(name);
  return true;
}

bool HeaderReader::end_object() {
  if (state_ == State::kTop) {
    state_ = State::kEnd;
    return true;
  }
  if (state_ == State::kTensor) {
    if (!has_dtype_ || !has_shape_ || !has_offsets_) {
      return Refuse("tensor " + Quoted(name_) + " lacks one of dtype, shape and data_offsets");
    }
    if (offsets_.size() != 2) {
      return Refuse("tensor " + Quoted(name_) + ": data_offsets are not two numbers");
    }
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    header_.tensors.emplace(std::move(name_), std::move(entry_));
  }
  state_ = State::kTop;
  return true;
}

bool HeaderReader::start_array(std::size_t) {
  if (state_ != State::kTensor || field_ == "dtype") return Unexpected("an array");
  state_ = field_ == "shape" ? State::kShape : State::kOffsets;
  return true;
}

bool HeaderReader::end_array() {
  state_ = State::kTensor;
  return true;
}

}  // namespace

bool TensorBytes(DType dtype, const std::vector<std::int64_t>& shape, std::uint64_t* bytes) {
  std::uint64_t product = DTypeBytes(dtype);
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) return false;
    if (__builtin_mul_overflow(product, static_cast<std::uint64_t>(dimension), &product)) {
      return false;
    }
  }
  *bytes = product;
  return true;
}

Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view text, const std::string& name) {
  HeaderReader reader;
  const bool begins_well = !text.empty() && text[0] == '{' && !JsonNestsDeeper(text, kJsonDepthMax);
  if (!begins_well || !nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) {
    const std::string cause =
        reader.error().empty() ? "the header does not begin with '{'" : reader.error();
    return InvalidArgument(name + ": " + cause +
                           "; the file is damaged or no safetensors file, fetch it again");
  }
  return std::move(reader.header());
}

}  // namespace shoal::storage
