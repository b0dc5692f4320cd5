// Weights in files: what is written, what is read back, and what is refused.

#include "model/quantized/stored_weight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <random>

#include "model/quantized/encode_weight.h"
#include "model/quantized/nf4_state.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/model/quantized/golden_weights.h"

namespace shoal::model {
namespace {

using storage::DType;
using storage::TensorView;
using ::testing::HasSubstr;

using Shape = std::vector<std::int64_t>;

std::vector<float> Normal(std::size_t count) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal(0, 0.02F);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

TensorView ViewOf(const std::vector<float>& values, const Shape& shape) {
  return {DType::kF32, shape, std::as_bytes(std::span(values))};
}

// Tensors that a test can damage.
struct File {
  explicit File(WeightFormat format, const Shape& shape = {5, 77},
                const std::string& name = "h.0.weight") {
    std::size_t count = 1;
    for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    values = Normal(count);
    auto encoded = EncodeWeight(name, ViewOf(values, shape), format).value();
    for (EncodedTensor& tensor : encoded) {
      const std::string key = tensor.stored.name;
      tensors.emplace(key, std::move(tensor));
    }
  }

  EncodedTensor& operator[](const std::string& name) { return tensors.at(name); }
  void SetFloat(const std::string& name, std::size_t index, float value) {
    std::memcpy(tensors.at(name).bytes.data() + index * sizeof(value), &value, sizeof(value));
  }
  void SetState(const std::string& text) {
    EncodedTensor& state = tensors.at("h.0.weight.quant_state.bitsandbytes__nf4");
    state.bytes = BytesOf(text);
    state.stored.shape = {static_cast<std::int64_t>(text.size())};
  }
  Result<StoredWeight> Find(const Shape& shape = {5, 77},
                            const std::string& name = "h.0.weight") const {
    storage::TensorMap map;
    for (const auto& [key, tensor] : tensors) map.emplace(key, tensor.View());
    return FindWeight(map, name, shape);
  }

  std::vector<float> values;
  std::map<std::string, EncodedTensor> tensors;
};

TEST(WeightFormat, NamesAreReadBack) {
  for (const WeightFormat format : kWeightFormats) {
    EXPECT_EQ(ParseWeightFormat(WeightFormatName(format)).value(), format);
  }
  EXPECT_THAT(ParseWeightFormat("fp4").status().message(),
              HasSubstr("unknown format of weights 'fp4'; use fp32, bf16, fp16, int8 or nf4"));
}

TEST(WeightFormat, BytesOfALargeMatrix) {
  const Shape shape = {4096, 11008};
  constexpr std::uint64_t kValues = 4096 * 11008;
  const auto bytes = [&](WeightFormat format) { return StoredBytes(format, "w", shape).value(); };
  EXPECT_EQ(bytes(WeightFormat::kFp32), 4 * kValues);
  EXPECT_EQ(bytes(WeightFormat::kBf16), 2 * kValues);
  EXPECT_EQ(bytes(WeightFormat::kFp16), 2 * kValues);
  EXPECT_EQ(bytes(WeightFormat::kInt8), kValues + 4 * 4096 + 1);
  EXPECT_EQ(bytes(WeightFormat::kNf4),
            kValues / 2 + kValues / 64 + 4 * (kValues / 64 / 256) + 64 + 1024 + kNf4StateBytes);
}

TEST(WeightFormat, RefusesShapesThatItCannotHold) {
  const auto message = [](WeightFormat format, const Shape& shape) {
    return StoredTensors(format, "w\n", shape).status().message();
  };
  EXPECT_THAT(message(WeightFormat::kNf4, {3, 0}), HasSubstr("tensor 'w?' has no values"));
  EXPECT_THAT(message(WeightFormat::kFp32, {1LL << 40, 1LL << 23}), HasSubstr("fit into memory"));
  EXPECT_THAT(message(WeightFormat::kBf16, {-1, 2}), HasSubstr("cannot be a weight"));
  EXPECT_THAT(message(WeightFormat::kInt8, {3}), HasSubstr("is no matrix"));
  EXPECT_THAT(message(WeightFormat::kNf4, Shape(9, 1)), HasSubstr("more than 8 dimensions"));
}

TEST(EncodeWeight, WritesWhatTheFormatSaysAndReadsItBack) {
  const std::map<WeightFormat, double> errors = {{WeightFormat::kFp32, 0},
                                                 {WeightFormat::kBf16, 1.0 / 256},
                                                 {WeightFormat::kFp16, 1.0 / 2048},
                                                 {WeightFormat::kInt8, 0.012},
                                                 {WeightFormat::kNf4, 0.15}};
  for (const Shape& shape : {Shape{1, 1}, Shape{5, 77}, Shape{3, 20000}, Shape{200, 200}}) {
    for (const auto& [format, error] : errors) {
      const File file(format, shape);
      std::uint64_t bytes = 0;
      const auto wanted = StoredTensors(format, "h.0.weight", shape).value();
      ASSERT_EQ(file.tensors.size(), wanted.size());
      for (const StoredTensor& tensor : wanted) {
        const EncodedTensor& found = file.tensors.at(tensor.name);
        EXPECT_EQ(found.stored.dtype, tensor.dtype) << tensor.name;
        EXPECT_EQ(found.stored.shape, tensor.shape) << tensor.name;
        bytes += found.bytes.size();
      }
      EXPECT_EQ(bytes, StoredBytes(format, "h.0.weight", shape).value());
      const StoredWeight weight = file.Find(shape).value();
      EXPECT_EQ(weight.format, format);
      EXPECT_EQ(weight.names.size(), wanted.size());
      std::vector<float> decoded(weight.values);
      weight.Decode(0, decoded);
      double off = 0, size = 0;
      for (std::size_t i = 0; i < decoded.size(); ++i) {
        off += std::pow(double{decoded[i]} - file.values[i], 2);
        size += std::pow(double{file.values[i]}, 2);
      }
      EXPECT_LE(std::sqrt(off / size), error) << WeightFormatName(format) << ' ' << shape[0];
    }
  }
}

// Pieces of a long tensor are no blocks of their own.
TEST(EncodeWeight, IsTheSameInPiecesAsInOne) {
  const File file(WeightFormat::kNf4, {3, 20001});
  std::vector<std::byte> codes((file.values.size() + 1) / 2);
  std::vector<float> absmax((file.values.size() + kNf4Block - 1) / kNf4Block);
  QuantizeNf4(file.values, codes, absmax);
  EXPECT_EQ(file.tensors.at("h.0.weight").bytes, codes);
  EXPECT_EQ(file.tensors.at("h.0.weight.absmax").bytes, NestAbsmax(absmax).codes);
}

TEST(EncodeWeight, TensorsAreThoseOfBitsandbytes) {
  for (const std::string name : {"nf4", "nf4_odd", "nf4_bf16", "int8", "int8_fp16"}) {
    const auto golden = Golden(name);
    const auto& theirs = golden->tensors();
    const WeightFormat format = name[0] == 'n' ? WeightFormat::kNf4 : WeightFormat::kInt8;
    const auto ours = EncodeWeight("weight", theirs.at("source"), format).value();
    std::size_t equal = 0;
    for (const EncodedTensor& tensor : ours) {
      const TensorView& other = theirs.at(tensor.stored.name);
      EXPECT_EQ(tensor.stored.dtype, other.dtype) << name << ' ' << tensor.stored.name;
      equal += tensor.bytes == Bytes(other.data) ? 1 : 0;
      if (tensor.stored.name.ends_with("__nf4")) {  // ours is longer
        const auto text =
            std::string(reinterpret_cast<const char*>(other.data.data()), other.data.size());
        Nf4State state = ParseNf4State(text, name).value();
        EXPECT_EQ(state.shape, theirs.at("source").shape);
        EXPECT_EQ(state.dtype, theirs.at("source").dtype);
        EXPECT_THAT(Nf4StateText(state), testing::StartsWith(text)) << name;
      } else {
        EXPECT_EQ(tensor.stored.shape, other.shape) << name << ' ' << tensor.stored.name;
      }
    }
    // Of nf4: codes and both maps; the offset's last bit may move scales and codes (nf4.h).
    EXPECT_GE(equal, 3U) << name;
    std::size_t others = 0;
    for (const auto& [key, view] : theirs) {
      others += key != "source" && key != "decoded" && key != "block_absmax" ? 1 : 0;
    }
    EXPECT_EQ(others, ours.size()) << name;
  }
}

TEST(EncodeWeight, GoesThroughAFile) {
  const test_support::TemporaryFolder folder;
  const std::string path = folder.path() + "/part.safetensors";
  for (const WeightFormat format : kWeightFormats) {
    const File file(format);
    storage::TensorMap map;
    for (const auto& [key, tensor] : file.tensors) map.emplace(key, tensor.View());
    ASSERT_TRUE(storage::WritePart(path, map).ok());
    const auto opened = storage::OpenSafetensors(path).value();
    const StoredWeight weight = FindWeight(opened->tensors(), "h.0.weight", Shape{5, 77}).value();
    std::vector<float> stored(weight.values), before(weight.values);
    weight.Decode(0, stored);
    file.Find()->Decode(0, before);
    EXPECT_EQ(stored, before) << WeightFormatName(format);
  }
}

TEST(EncodeWeight, RefusesValuesThatAFormatCannotHold) {
  const auto message = [](WeightFormat format, float value) {
    std::vector<float> values(40000, 1);
    values[30007] = value;
    return EncodeWeight("h.0.weight", ViewOf(values, {4, 10000}), format).status().message();
  };
  for (const WeightFormat format : kWeightFormats) {
    for (const float value : {std::nanf(""), std::numeric_limits<float>::infinity(), -0x1p121F}) {
      EXPECT_THAT(message(format, value), HasSubstr("value 30007 of tensor 'h.0.weight' is "));
    }
  }
  EXPECT_THAT(message(WeightFormat::kFp16, 65520), HasSubstr("choose another format"));
  EXPECT_EQ(message(WeightFormat::kFp16, 65519.996F), "");
  EXPECT_EQ(message(WeightFormat::kNf4, 0x1p120F), "");
}

TEST(EncodeWeight, RefusesWhatHasNoFloats) {
  const std::vector<float> values(6);
  TensorView view = ViewOf(values, {2, 4});  // two values more than there are
  EXPECT_THAT(EncodeWeight("w", view, WeightFormat::kNf4).status().message(),
              HasSubstr("tensor 'w' is no tensor of F32, F16 or BF16 values"));
  view = {DType::kI32, {2, 3}, view.data};
  EXPECT_FALSE(EncodeWeight("w", view, WeightFormat::kFp32).ok());
}

struct Damage {
  std::string message;
  std::function<void(File*)> act;
};

void ExpectRefusals(WeightFormat format, const std::vector<Damage>& damages) {
  for (const Damage& damage : damages) {
    File file(format);
    damage.act(&file);
    const auto found = file.Find();
    ASSERT_FALSE(found.ok()) << damage.message;
    EXPECT_THAT(found.status().message(), HasSubstr(damage.message));
    EXPECT_EQ(found.status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(FindWeight, RefusesDamagedNf4) {
  const std::string w = "h.0.weight";
  ExpectRefusals(
      WeightFormat::kNf4,
      {{"tensor 'h.0.weight' is missing", [&](File* f) { f->tensors.erase(w); }},
       {"'h.0.weight.absmax' is missing", [&](File* f) { f->tensors.erase(w + ".absmax"); }},
       {"'h.0.weight.quant_map' is missing", [&](File* f) { f->tensors.erase(w + ".quant_map"); }},
       {"nested_absmax' is missing", [&](File* f) { f->tensors.erase(w + ".nested_absmax"); }},
       {"nested_quant_map' is missing",
        [&](File* f) { f->tensors.erase(w + ".nested_quant_map"); }},
       {"there is no 'h.0.weight.quant_state.bitsandbytes__nf4' that tells how",
        [&](File* f) { f->tensors.erase(w + ".quant_state.bitsandbytes__nf4"); }},
       {"is U8 of shape [192, 1] and should be U8 of shape [193, 1]",
        [&](File* f) {
          (*f)[w].stored.shape = {192, 1};
          (*f)[w].bytes.resize(192);
        }},
       {"should be U8 of shape [193, 1]", [&](File* f) { (*f)[w].bytes.resize(192); }},
       {"'h.0.weight.absmax' is F32 of shape [7] and should be U8 of shape [7]",
        [&](File* f) { (*f)[w + ".absmax"].stored.dtype = DType::kF32; }},
       {"nested_absmax' holds nan, which is no scale",
        [&](File* f) { f->SetFloat(w + ".nested_absmax", 0, std::nanf("")); }},
       {"nested_absmax' holds -1.0", [&](File* f) { f->SetFloat(w + ".nested_absmax", 0, -1); }},
       {"nested_quant_map' holds inf",
        [&](File* f) {
          f->SetFloat(w + ".nested_quant_map", 255, std::numeric_limits<float>::infinity());
        }},
       {"does not hold the values of nf4",
        [&](File* f) { f->SetFloat(w + ".quant_map", 7, 0.001F); }},
       {"has shape [77, 5], but the model's is [5, 77]", [](File* f) {
          f->SetState(Nf4StateText({DType::kF32, {77, 5}, true, 0.5F}));
        }}});
}

TEST(FindWeight, RefusesDamagedInt8) {
  ExpectRefusals(
      WeightFormat::kInt8,
      {{"tensor 'h.0.SCB' is missing (F32 of shape [5])",
        [](File* f) { f->tensors.erase("h.0.SCB"); }},
       {"'h.0.SCB' holds inf",
        [](File* f) { f->SetFloat("h.0.SCB", 4, std::numeric_limits<float>::infinity()); }},
       {"'h.0.SCB' is F32 of shape [5, 1] and should be F32 of shape [5]",
        [](File* f) {
          (*f)["h.0.SCB"].stored.shape = {5, 1};
        }},
       {"'h.0.weight' is I8 of shape [77, 5] and should be I8 of shape [5, 77]",
        [](File* f) {
          (*f)["h.0.weight"].stored.shape = {77, 5};
        }},
       {"only 0, the plain layout, is read",
        [](File* f) { (*f)["h.0.weight_format"].bytes[0] = std::byte{1}; }},
       {"'h.0.weight' has dtype I16; weights are F32, F16, BF16, or quantised",
        [](File* f) { (*f)["h.0.weight"].stored.dtype = DType::kI16; }}});
}

TEST(FindWeight, ReadsInt8WithoutLayout) {
  File file(WeightFormat::kInt8);
  file.tensors.erase("h.0.weight_format");
  EXPECT_EQ(file.Find()->names, (std::vector<std::string>{"h.0.weight", "h.0.SCB"}));
}

TEST(FindWeight, ScalesOfOtherNamesStandBelowThem) {
  EXPECT_EQ(Int8Names("weight").scales, "SCB");
  EXPECT_EQ(Int8Names("h.weights").scales, "h.weights.SCB");
  const File file(WeightFormat::kInt8, {2, 3}, "table");
  EXPECT_EQ(file.Find({2, 3}, "table")->names,
            (std::vector<std::string>{"table", "table.SCB", "table.weight_format"}));
}

TEST(Nf4State, RefusesWhatIsNotSuchAText) {
  const std::string good = R"("quant_type":"nf4","blocksize":64,"dtype":"float16","shape":[5,77])";
  const std::string nested = R"(,"nested_blocksize":256,"nested_dtype":"float32")";
  const auto message = [](const std::string& text) {
    const auto state = ParseNf4State(text, "w");
    return state.ok() ? "" : state.status().message();
  };
  EXPECT_EQ(message("{" + good + "}"), "");
  EXPECT_EQ(message("{" + good + nested + R"(,"nested_offset":1e-3} )"), "");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "is no JSON object"},
      {"[1]", "is no JSON object"},
      {"{" + good, "is no JSON object"},
      {std::string(5000, ' '), "is too long"},
      {std::string(2000, '['), "is no JSON object"},
      {"{" + good + R"(,"more":1})", "has the unknown key 'more'"},
      {R"({"quant_type":"fp4","blocksize":64})", "does not say nf4 in blocks of 64"},
      {R"({"quant_type":"nf4","blocksize":128})", "does not say nf4 in blocks of 64"},
      {R"({"quant_type":"nf4","blocksize":64.0})", "does not say nf4 in blocks of 64"},
      {R"({"quant_type":"nf4","blocksize":64,"dtype":"int8"})", "has no dtype"},
      {R"({"quant_type":"nf4","blocksize":64,"dtype":"float32"})", "has no shape"},
      {R"({"quant_type":"nf4","blocksize":64,"dtype":"float32","shape":[-1]})", "has no shape"},
      {R"({"quant_type":"nf4","blocksize":64,"dtype":"float32","shape":[1.5]})", "has no shape"},
      {R"({"quant_type":"nf4","blocksize":64,"dtype":"float32","shape":[1,1,1,1,1,1,1,1,1]})",
       "has no shape"},
      {R"({"quant_type":"nf4","blocksize":64,"dtype":"float32","shape":[18446744073709551615]})",
       "has no shape"},
      {"{" + good + R"(,"nested_offset":0.5})", "does not say float32 in nested blocks of 256"},
      {"{" + good + R"(,"nested_blocksize":128,"nested_dtype":"float32"})",
       "does not say float32 in nested blocks of 256"},
      {"{" + good + nested + "}", "has no finite nested_offset"},
      {"{" + good + nested + R"(,"nested_offset":"0.5"})", "has no finite nested_offset"},
      {"{" + good + nested + R"(,"nested_offset":1e300})", "has no finite nested_offset"},
      {"{" + good + nested + R"(,"nested_offset":1e999})", "is no JSON object"},
      {"{" + good + nested + R"(,"nested_offset":NaN})", "is no JSON object"}};
  for (const auto& [text, cause] : cases) {
    EXPECT_THAT(message(text), HasSubstr("the nf4 state of tensor 'w' " + cause)) << text;
  }
}

TEST(Nf4State, TextsArePinnedAndReadBack) {
  const Nf4State state{DType::kBF16, {128256, 4096}, true, 0.1F};
  std::string text = Nf4StateText(state);
  EXPECT_EQ(text.size(), kNf4StateBytes);
  EXPECT_EQ(
      text.substr(0, text.find_last_not_of(' ') + 1),
      R"({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [128256, 4096], )"
      R"("nested_blocksize": 256, "nested_dtype": "float32", )"
      R"("nested_offset": 0.10000000149011612})");
  for (const float offset : {0.0F, 1.0F, 1e-44F, 3e-7F, 0x1p119F, 123456789.0F}) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (const Shape& shape : {Shape{}, Shape{3}, Shape{1, 2, 3, 4, 5, 6, 7, 1LL << 50}}) {
        const Nf4State back =
            ParseNf4State(Nf4StateText({dtype, shape, true, offset}), "w").value();
        EXPECT_EQ(back.offset, offset);
        EXPECT_EQ(back.dtype, dtype);
        EXPECT_EQ(back.shape, shape);
        EXPECT_TRUE(back.nested);
      }
    }
  }
}

}  // namespace
}  // namespace shoal::model
