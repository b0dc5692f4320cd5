// What the page in its owner's browser orders of a peer: the JSON of POST /settings as a command of
// the local door. Pure.

#ifndef SHOAL_DAEMON_TERMS_PAGE_ORDER_H_
#define SHOAL_DAEMON_TERMS_PAGE_ORDER_H_

#include <map>
#include <string>
#include <string_view>

#include "common/status.h"

namespace shoal::daemon {

struct PageOrder {
  std::string command;  // set, pause, resume or settings
  std::map<std::string, std::string> arguments;
};

// {"set":{"upload":"5mbit","for":"8h"}}, {"pause":{"for":"1h"}}, {"pause":{}}, {"resume":{}}, or
// {"settings":{}}, which changes nothing. What `shoal set` checks is checked later. Invalid
// argument: it is none of these.
Result<PageOrder> ParsePageOrder(std::string_view json);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_TERMS_PAGE_ORDER_H_
