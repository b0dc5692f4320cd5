// What `shoal top` shows of a peer's status, for terminals of any size. Pure.

#ifndef SHOAL_CLIENT_TOP_VIEW_H_
#define SHOAL_CLIENT_TOP_VIEW_H_

#include <string>
#include <vector>

#include "common/status.h"

namespace shoal::client {

// `rows` lines at most, the last of them says which keys there are. `asked`: why there is no
// status, if there is none. The first `scrolled` lines below the headline are left out, as far as
// there are more than fit.
std::vector<std::string> TopFrame(const std::string& status_json, const Status& asked,
                                  std::size_t columns, std::size_t rows, std::size_t scrolled);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_TOP_VIEW_H_
