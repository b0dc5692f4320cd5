// The live page of peer and scheduler: one HTML document that needs no network.

#ifndef SHOAL_NET_STATUS_PAGE_H_
#define SHOAL_NET_STATUS_PAGE_H_

#include <string_view>

namespace shoal::net {

// net/status_page.html, embedded at build.
std::string_view StatusPage();

}  // namespace shoal::net

#endif  // SHOAL_NET_STATUS_PAGE_H_
