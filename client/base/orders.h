// Orders that a message suggests, as its reader can type them.

#ifndef SHOAL_CLIENT_BASE_ORDERS_H_
#define SHOAL_CLIENT_BASE_ORDERS_H_

#include <string>

namespace shoal::client {

// Daemons suggest `shoal resume` or shoal swarm resume without a folder, as what they say is read
// on several machines. These name the folder that the reader's own command named, behind the verb;
// a command that has --dir stays. Pure; thread: any.

// A path or other text as one word of a shell.
std::string ShellWord(const std::string& text);
// Commands on a peer; unchanged where `directory` is what a command takes without --dir.
std::string PeerOrders(const std::string& text, const std::string& directory);
// Commands on a run.
std::string RunOrders(const std::string& text, const std::string& directory);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_BASE_ORDERS_H_
