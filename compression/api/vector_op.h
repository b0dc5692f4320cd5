// What may be done to a vector of values, value by value; each operation is rounded once.

#ifndef SHOAL_COMPRESSION_API_VECTOR_OP_H_
#define SHOAL_COMPRESSION_API_VECTOR_OP_H_

#include <cstdint>

namespace shoal::compression {

enum class VectorOp : std::uint8_t {
  kCopy,       // to = from
  kAdd,        // to += from
  kSubtract,   // to -= from
  kScale,      // to *= factor
  kAddScaled,  // to += from * factor, rounded in between
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_API_VECTOR_OP_H_
