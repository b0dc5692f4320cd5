// Pins every byte of every payload and m image (docs/WIRE.md, "Payloads"). The vectors were
// made by a separate program from the document, not by these codecs. A change here is a change of
// the wire: it needs a new layout version.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compression/api/codec.h"
#include "tests/unit/compression/one_sample.h"

namespace shoal::compression {
namespace {

constexpr SampleShape kShape{3, 6};  // 18 values: six buckets of 3, two whole groups and a rest

const std::vector<float> kFirst = {1.0F,  -1.0F, 0.5F,  -0.25F, 0.1F, 0.0F, 0.75F, -0.6F,    3.01F,
                                   -0.3F, 2.0F,  -3.0F, 0.0F,   0.0F, 0.0F, 0.0F,  70000.0F, 1e-3F};
const std::vector<float> kSecond = {1.25F, -0.5F, 0.5F, -0.375F, 0.1F,     0.3F,
                                    0.75F, -0.9F, 2.0F, -0.3F,   2.0F,     -3.5F,
                                    1e-4F, 0.0F,  0.0F, -8.0F,   60000.0F, 0.5F};

std::string Hex(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const std::byte b : bytes) {
    hex += kDigits[std::to_integer<int>(b) >> 4];
    hex += kDigits[std::to_integer<int>(b) & 15];
  }
  return hex;
}

struct Visit {
  std::string payload;
  Buffer image;
};

Visit Encode(const std::string& spec, const std::vector<float>& values, const Buffer& m) {
  const OneSample codec(spec, kShape.hidden);
  std::vector<std::byte> out(codec.EncodedBytesMax(kShape));
  Visit visit;
  const auto bytes = codec.Encode(values, kShape, m.bytes(), {}, out, &visit.image);
  EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
  if (bytes.ok()) visit.payload = Hex(std::span(out).first(*bytes));
  return visit;
}

// Header of an aqsgd message with fp16 m in the mode `delta`.
std::string Message(std::uint8_t deltas, std::size_t delta_bytes) {
  const std::byte head[] = {std::byte{3}, std::byte{2},      std::byte{16},
                            std::byte{0}, std::byte{deltas}, std::byte{0},
                            std::byte{0}, std::byte{0},      static_cast<std::byte>(delta_bytes)};
  return Hex(head) + "00000000000000";
}

constexpr char kHalves[] =
    "003800b8003400b0662a00000036cdb4053ecdb0003c00be000000000000000046781910";

TEST(CodecGolden, Raw) {
  EXPECT_EQ(Encode("raw:dtype=fp32", kFirst, {}).payload,
            "01022001000000001200000000000000"
            "0000803f000080bf0000003f000080becdcccc3d000000000000403f9a9919bfd7a340409a9999be"
            "00000040000040c00000000000000000000000000000000000b888476f12833a");
  // 70000 does not fit: exponent 1 in byte 7.
  EXPECT_EQ(Encode("raw:dtype=fp16", kFirst, {}).payload,
            std::string("01021002000000011200000000000000") + kHalves);
  EXPECT_EQ(Encode("raw:dtype=bf16", kFirst, {}).payload,
            "01021003000000001200000000000000"
            "803f80bf003f80becd3d0000403f1abf41409abe004040c000000000000000008947833a");
}

TEST(CodecGolden, Direct) {
  // Header of 16 bytes, six scales, codes.
  const char* const want[] = {
      "02020203030000001200000000000000"
      "803f803e4140404000008947"
      "336a37aa0b00",
      "02020303030000001200000000000000"
      "803f803e4140404000008947"
      "8751729f4192270000",
      "02020403030000001200000000000000"
      "803f803e4140404000008947"
      "0f0c8b697f0d88888f000000",
      "02020503030000001200000000000000"
      "803f803e4140404000008947"
      "1f6060e164df690021841f02000000",
      "02020603030000001200000000000000"
      "803f803e4140404000008947"
      "3f00032c78663f57032008823f0800000000",
      "02020703030000001200000000000000"
      "803f803e4140404000008947"
      "7f001890053e67ff9c1a000402817f200000000000",
      "02020803030000001200000000000000"
      "803f803e4140404000008947"
      "ff00c000b3809f66ff73d50080808080ff80000000000000"};
  for (int bits = 2; bits <= 8; ++bits) {
    EXPECT_EQ(Encode("direct:bits=" + std::to_string(bits) + ",bucket=3", kFirst, {}).payload,
              want[bits - 2])
        << bits;
  }
}

TEST(CodecGolden, OtherLevelsAndScales) {
  const struct {
    const char* spec;
    const char* payload;
  } cases[] = {
      {"direct:bits=1,bucket=3",
       "02020103030000001200000000000000"
       "803f803e414040400000894775f503"},
      {"direct:bits=2,bucket=3,levels=midtread",
       "02020213030000001200000000000000"
       "803f803e4140404000008947225526550600"},
      {"direct:bits=4,bucket=3,levels=midtread",
       "02020413030000001200000000000000"
       "803f803e41404040000089470e0b7a696e0c77777e000000"},
      {"direct:bits=1,bucket=3,levels=affine",
       "02020123030000001200000000000000"
       "80bf803f80becd3d1abf414040c000400000000000008947350701"},
      {"direct:bits=4,bucket=3,levels=affine",
       "02020423030000001200000000000000"
       "80bf803f80becd3d1abf414040c0004000000000000089470f0bbf068f0f00000f000000"},
      {"direct:bits=4,bucket=channel",
       "04020403000000001200000000000000"
       "803f803f41409a3e894740400f19883e0f0888888f000000"},
  };
  for (const auto& c : cases) EXPECT_EQ(Encode(c.spec, kFirst, {}).payload, c.payload) << c.spec;
  auto small = kFirst;
  small[16] = -7.5F;  // the authors' scales are fp16
  EXPECT_EQ(Encode("direct:bits=3,bucket=channel,levels=authors", small, {}).payload,
            "04020332000000001200000000000000"
            "003c003c0542cd348047004247435e474192200000");
}

TEST(CodecGolden, ImagesOfFewBits) {
  const std::pair<const char*, const char*> cases[] = {
      {"8",
       "02000800000000001200000000000000"
       "803f803f41409a3e89474040ff0095158080e033ff00800080808080ff80000000000000"},
      {"4",
       "02000400000000001200000000000000"
       "803f803f41409a3e894740400f19883e0f0888888f000000"},
      {"2",
       "02000200000000001200000000000000"
       "803f803f41409a3e89474040233a23aa0b00"}};
  for (const auto& [bits, image] : cases) {
    const std::string spec =
        "aqsgd:bits=4,bucket=3,first_visit=raw:dtype=fp32,m=" + std::string(bits);
    EXPECT_EQ(Hex(Encode(spec, kFirst, {}).image.bytes()), image) << bits;
  }
}

TEST(CodecGolden, AqsgdFirstVisit) {
  const Visit fp16 = Encode("aqsgd:bits=4,bucket=3", kFirst, {});
  EXPECT_EQ(fp16.payload, Message(0, 0) + "01021002000000011200000000000000" + kHalves);
  EXPECT_EQ(Hex(fp16.image.bytes()), std::string("02011000000000001200000000000000") + kHalves);
  EXPECT_EQ(Encode("aqsgd:bits=4,first_visit=direct:bits=8/bucket=3", kFirst, {}).payload,
            Message(0, 0) +
                "02020803030000001200000000000000"
                "803f803e4140404000008947"
                "ff00c000b3809f66ff73d50080808080ff80000000000000");
}

TEST(CodecGolden, AqsgdSecondVisit) {
  const struct {
    const char* payload;
    const char* image;
  } want[] = {{"02020203030000001200000000000000"
               "003f9a3e823f003fd2381d46"
               "6f6e286b0800",
               "803d00b9003934b59b313833043cd5ba7f409ab14040c0c2ec04a401a401e8e8a07be868"},
              {"02020303030000001200000000000000"
               "003f9a3e823f003fd2381d46"
               "3ec553207172200000",
               "403d80b88038ceb567303634043bd9bb3e409ab32040e0c2be05d200d200e8e4797be864"},
              {"02020403030000001200000000000000"
               "003f9a3e823f003fd2381d46"
               "fc48f85880088f7880000000",
               "203d40b840381bb69a2f8334823a57bb1e404db41040f0c2270669006900e8e0667be860"},
              {"02020503030000001200000000000000"
               "003f9a3e823f003fd2381d46"
               "f8c3043f5c0042f0217c0002000000",
               "103d20b82038f4b5002faa34413a16bb0d408db40840f8c25c0634003400e8dc5c7be85c"},
              {"02020603030000001200000000000000"
               "003f9a3e823f003fd2381d46"
               "f00f4ae00f5a0008023f087e000800000000",
               "083d10b8103808b6b32ebd34203a36bb0540adb40440fcc276061a001a00e8d8577be858"},
              {"02020703030000001200000000000000"
               "003f9a3e823f003fd2381d46"
               "e03fb004fc035b002010f007027f00200000000000",
               "043d08b80838feb58c2ec634103a26bb0140bdb40240fec283060d000d00e8d4547be854"},
              {"02020803030000001200000000000000"
               "003f9a3e823f003fd2381d46"
               "c0ff804a80ff805a00808000ff80807f0080000000000000",
               "023d04b8043803b6792ecb34083a2ebbfe3fc5b40140ffc2890607000700e8d0537be850"}};
  for (int bits = 2; bits <= 8; ++bits) {
    const std::string spec = "aqsgd:bits=" + std::to_string(bits) + ",bucket=3";
    const Visit first = Encode(spec, kFirst, {});
    const Visit second = Encode(spec, kSecond, first.image);
    const std::string section = want[bits - 2].payload;
    EXPECT_EQ(second.payload, Message(1, section.size() / 2) + section) << bits;
    EXPECT_EQ(Hex(second.image.bytes()),
              std::string("02001000000000001200000000000000") + want[bits - 2].image)
        << bits;
  }
}

}  // namespace
}  // namespace shoal::compression
