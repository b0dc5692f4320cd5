#include "dataset/tokenizer.h"

namespace shoal::dataset {

Result<std::string> DecodeBehind(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                                 std::size_t from) {
  if (from == 0) return tokenizer.Decode(ids);
  // One id in front takes the place of all.
  SHOAL_ASSIGN_OR_RETURN(const std::string before, tokenizer.Decode(ids.subspan(from - 1, 1)));
  SHOAL_ASSIGN_OR_RETURN(const std::string all, tokenizer.Decode(ids.subspan(from - 1)));
  return all.substr(before.size());
}

}  // namespace shoal::dataset
