// Which values a codec, an error memory or a sum may be given. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_API_VALUE_RANGE_H_
#define SHOAL_COMPRESSION_API_VALUE_RANGE_H_

#include <span>

namespace shoal::compression {

// Whether all values are finite and of magnitudes up to `most`, which is above 0 and finite.
bool AllWithin(std::span<const float> values, float most);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_API_VALUE_RANGE_H_
