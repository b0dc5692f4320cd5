// Options that several replica methods have. Internal to replica/methods/. Pure. Thread: any.

#ifndef SHOAL_REPLICA_METHODS_METHOD_OPTIONS_H_
#define SHOAL_REPLICA_METHODS_METHOD_OPTIONS_H_

#include <cstdint>
#include <string>

#include "common/status.h"
#include "compression/api/codec_spec.h"

namespace shoal::replica {

inline constexpr char kExactCodec[] = "raw:dtype=fp32";
inline constexpr std::uint32_t kStartMax = 4000000000;  // of `start`

// In decimals, without an exponent.
std::string Decimal(double value);
// The end of a warm-up; "auto" is 0.
Result<std::uint32_t> StartOption(const compression::CodecSpec& spec);
std::string StartText(std::uint64_t start);

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_METHODS_METHOD_OPTIONS_H_
