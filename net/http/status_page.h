// The live page of peer and scheduler: HTML, style and script that need no network. Style and
// script are files of their own, so that the page's policy can forbid all others.

#ifndef SHOAL_NET_HTTP_STATUS_PAGE_H_
#define SHOAL_NET_HTTP_STATUS_PAGE_H_

#include <string_view>

namespace shoal::net {

// net/http/status_page.html, .css and .js, embedded at build; the script has the labels of the
// status fields before it (self.shoalLabels).
std::string_view StatusPage();
std::string_view StatusStyle();
std::string_view StatusScript();
// net/http/status_history.js: history and events.
std::string_view HistoryScript();
// net/http/status_peer.js: what only the page of a peer has.
std::string_view PeerScript();

}  // namespace shoal::net

#endif  // SHOAL_NET_HTTP_STATUS_PAGE_H_
