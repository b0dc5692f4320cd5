#include "net/http/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <string>

#include "net/base/host_port.h"
#include "net/http/post_guard.h"

namespace shoal::net {
namespace {

// One request over a plain socket; the whole answer.
std::string Ask(const std::string& address, const std::string& request) {
  const auto target = ParseHostPort(address);
  if (!target.ok()) return target.status().ToString();
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(target->port);
  inet_pton(AF_INET, target->host.c_str(), &to.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) {
    close(fd);
    return "cannot connect";
  }
  std::string answer;
  if (send(fd, request.data(), request.size(), MSG_NOSIGNAL) ==
      static_cast<ssize_t>(request.size())) {
    char chunk[4096];
    for (ssize_t got = 0; (got = recv(fd, chunk, sizeof(chunk), 0)) > 0;) {
      answer.append(chunk, static_cast<std::size_t>(got));
    }
  }
  close(fd);
  return answer;
}

std::string Get(const std::string& address, const std::string& path,
                const std::string& host = "127.0.0.1") {
  return Ask(address,
             "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n");
}

class HttpServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = NewHttpServer(
        {.listen = "127.0.0.1:0"}, executor_.get(), {[this](const PageRequest& asked) {
          EXPECT_TRUE(executor_->InThread());
          if (asked.path == "/hello") {
            return HttpResponse{200, "text/plain", "hello " + asked.query + "\n"};
          }
          return StatusPageOrNotFound(asked.path);
        }});
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(*server);
  }
  void TearDown() override { server_.reset(); }

  std::unique_ptr<Executor> executor_ = NewThreadExecutor("control");
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersOnTheExecutor) {
  const std::string answer = Get(server_->address(), "/hello?x=1");
  EXPECT_NE(answer.find("200 OK"), std::string::npos) << answer;
  EXPECT_NE(answer.find("\r\n\r\nhello x=1\n"), std::string::npos) << answer;
}

TEST_F(HttpServerTest, ServesTheLivePage) {
  const std::string answer = Get(server_->address(), "/");
  EXPECT_NE(answer.find("text/html"), std::string::npos);
  EXPECT_NE(answer.find("</html>"), std::string::npos);
  // It shows what peers say: nothing of that may run, and no other page may frame it.
  EXPECT_NE(answer.find("default-src 'none'; script-src 'self';"), std::string::npos);
  EXPECT_NE(answer.find("X-Frame-Options: DENY"), std::string::npos);
  EXPECT_NE(Get(server_->address(), "/nothing").find("404"), std::string::npos);
}

TEST_F(HttpServerTest, RefusesForeignHostNamesAndOtherMethods) {
  EXPECT_NE(Get(server_->address(), "/hello", "example.org").find("403"), std::string::npos);
  EXPECT_NE(Get(server_->address(), "/hello", "localhost:8790").find("200"), std::string::npos);
  EXPECT_NE(Get(server_->address(), "/hello", "[::1]:8790").find("200"), std::string::npos);
  const std::string post = Ask(server_->address(),
                               "POST /hello HTTP/1.1\r\nHost: localhost\r\n"
                               "Content-Length: 0\r\nConnection: close\r\n\r\n");
  EXPECT_NE(post.find("405"), std::string::npos) << post;
}

TEST_F(HttpServerTest, SurvivesGarbageAndHugeHeaders) {
  EXPECT_EQ(Ask(server_->address(), "\x16\x03\x01 not http\r\n\r\n"), "");
  EXPECT_EQ(Get(server_->address(), "/" + std::string(100'000, 'x')), "");
  EXPECT_NE(Get(server_->address(), "/hello").find("200"), std::string::npos);
}

// ---- POST, which changes something ----

class ManualClock final : public Clock {
 public:
  TimePoint Now() const override { return now_; }
  void Advance(Duration duration) { now_ += duration; }

 private:
  TimePoint now_{};
};

constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

class PostTest : public ::testing::Test {
 protected:
  void SetUp() override { Open({.listen = "127.0.0.1:0", .token = kToken}); }
  void TearDown() override { server_.reset(); }

  void Open(HttpServerOptions options) {
    HttpHandlers handlers;
    handlers.on_get = [](const PageRequest&) { return HttpResponse{200, "text/plain", "read\n"}; };
    handlers.on_post = [this](const PageRequest& asked, std::function<void(HttpResponse)> reply) {
      EXPECT_TRUE(executor_->InThread());
      ++changes_;
      executor_->Post("test.reply", [reply, body = asked.body] {
        reply({200, "text/plain", "changed " + body + "\n"});
      });
    };
    auto server = NewHttpServer(options, executor_.get(), std::move(handlers));
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(*server);
    port_ = server_->address().substr(server_->address().rfind(':'));
  }

  // A request as the page sends it, but for what `headers` says otherwise; "" leaves one away.
  std::string Post(const std::map<std::string, std::string>& headers = {},
                   const std::string& body = "{}") {
    std::map<std::string, std::string> all = {{"Host", "127.0.0.1" + port_},
                                              {"Origin", "http://127.0.0.1" + port_},
                                              {"Sec-Fetch-Site", "same-origin"},
                                              {"Content-Type", "application/json"},
                                              {"X-Shoal-Token", kToken}};
    for (const auto& [name, value] : headers) all[name] = value;
    std::string request = "POST /settings HTTP/1.1\r\nConnection: close\r\nContent-Length: " +
                          std::to_string(body.size()) + "\r\n";
    for (const auto& [name, value] : all) {
      if (!value.empty()) request += name + ": " + value + "\r\n";
    }
    return Ask("127.0.0.1" + port_, request + "\r\n" + body);
  }
  int changes() {
    std::promise<int> seen;
    executor_->Post("test.changes", [&] { seen.set_value(changes_); });
    return seen.get_future().get();
  }

  std::unique_ptr<Executor> executor_ = NewThreadExecutor("control");
  std::unique_ptr<HttpServer> server_;
  std::string port_;
  int changes_ = 0;  // thread: control
};

TEST_F(PostTest, ThePageOfThisMachineMayChangeSomething) {
  const std::string answer = Post({}, R"({"resume":{}})");
  EXPECT_NE(answer.find("200 OK"), std::string::npos) << answer;
  EXPECT_NE(answer.find("changed {\"resume\":{}}"), std::string::npos) << answer;
  EXPECT_EQ(answer.find("Access-Control"), std::string::npos) << "no other page may read it";
  for (const std::string host : {"localhost", "[::1]"}) {
    const std::string name = host + port_;
    EXPECT_NE(Post({{"Host", name}, {"Origin", "http://" + name}}).find("200"), std::string::npos);
  }
  EXPECT_NE(Post({{"Content-Type", "application/json; charset=utf-8"}}).find("200"),
            std::string::npos);
  EXPECT_NE(Post({{"Origin", ""}, {"Sec-Fetch-Site", ""}}).find("200"), std::string::npos)
      << "a program that is no browser sends neither";
  EXPECT_EQ(changes(), 5);
}

TEST_F(PostTest, WhatIsNotOfThisPageChangesNothing) {
  const std::string own = "http://127.0.0.1" + port_;
  const std::pair<std::map<std::string, std::string>, const char*> cases[] = {
      {{{"X-Shoal-Token", ""}}, "403"},
      {{{"X-Shoal-Token", std::string(32, '0')}}, "403"},
      {{{"X-Shoal-Token", std::string(kToken).substr(0, 31)}}, "403"},
      {{{"X-Shoal-Token", std::string(kToken) + "0"}}, "403"},
      // Another site posts here, from a form or a script.
      {{{"Origin", "https://example.org"}, {"Sec-Fetch-Site", "cross-site"}}, "403"},
      {{{"Origin", "null"}}, "403"},
      {{{"Origin", "https://127.0.0.1" + port_}}, "403"},
      {{{"Origin", ""}, {"Sec-Fetch-Site", "cross-site"}}, "403"},
      {{{"Content-Type", "text/plain"}}, "415"},
      {{{"Content-Type", "application/x-www-form-urlencoded"}}, "415"},
      {{{"Content-Type", ""}}, "415"},
      // Another program of this machine serves pages, too.
      {{{"Origin", "http://127.0.0.1:1"}, {"Sec-Fetch-Site", "same-site"}}, "403"},
      {{{"Origin", "http://localhost" + port_}}, "403"},
      {{{"Origin", own + ".example.org"}}, "403"},
      // Another name was bound to this address: both say it.
      {{{"Host", "example.org" + port_}, {"Origin", "http://example.org" + port_}}, "403"},
      {{{"Host", "127.0.0.1.example.org"}, {"Origin", "http://127.0.0.1.example.org"}}, "403"},
      {{{"Host", ""}, {"Origin", ""}}, "40"}};
  for (const auto& [headers, code] : cases) {
    const std::string answer = Post(headers);
    EXPECT_NE(answer.find(std::string("HTTP/1.1 ") + code), std::string::npos)
        << headers.begin()->first << ": " << headers.begin()->second << "\n"
        << answer;
    EXPECT_EQ(answer.find("Access-Control"), std::string::npos);
  }
  EXPECT_EQ(changes(), 0);
}

TEST_F(PostTest, ReadingChangesNothingAndBrowsersMayNotAskForMore) {
  const std::string token = std::string("X-Shoal-Token: ") + kToken + "\r\n\r\n";
  const std::string read = Ask("127.0.0.1" + port_,
                               "GET /settings HTTP/1.1\r\nHost: localhost\r\n"
                               "Connection: close\r\n" +
                                   token);
  EXPECT_NE(read.find("read"), std::string::npos) << read;
  for (const std::string method : {"OPTIONS", "PUT", "DELETE", "PATCH"}) {
    const std::string answer =
        Ask("127.0.0.1" + port_, method +
                                     " /settings HTTP/1.1\r\n"
                                     "Host: localhost\r\nConnection: close\r\n" +
                                     token);
    EXPECT_NE(answer.find("405"), std::string::npos) << answer;
  }
  EXPECT_EQ(changes(), 0);
}

TEST_F(PostTest, BodiesAreBounded) {
  EXPECT_NE(Post({}, std::string(kPostBytesMax, ' ')).find("200"), std::string::npos);
  EXPECT_NE(Post({}, std::string(kPostBytesMax + 1, ' ')).find("413"), std::string::npos);
  EXPECT_EQ(changes(), 1);
}

TEST_F(PostTest, WrongTokensAreCounted) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_NE(Post({{"X-Shoal-Token", "x"}}).find("403"), std::string::npos);
  }
  EXPECT_NE(Post().find("429"), std::string::npos) << "the right one is not told from the others";
  EXPECT_EQ(changes(), 0);
}

TEST_F(PostTest, OthersMayReadButNotChangeWhereRemoteIsAllowed) {
  server_.reset();
  Open({.listen = "0.0.0.0:0", .allow_remote = true, .token = kToken});
  const std::string name = "peer-1" + port_;
  EXPECT_NE(Get("127.0.0.1" + port_, "/settings", name).find("200"), std::string::npos);
  EXPECT_NE(Post({{"Host", name}, {"Origin", "http://" + name}}).find("403"), std::string::npos);
  EXPECT_EQ(changes(), 0);
  EXPECT_NE(Post().find("200"), std::string::npos);
}

TEST(PageLink, HasTheTokenWhereSettingsCanBeChanged) {
  EXPECT_EQ(PageLink("127.0.0.1:8790", "abc"), "http://127.0.0.1:8790/#token=abc");
  EXPECT_EQ(PageLink("[::1]:8790", "abc"), "http://[::1]:8790/#token=abc");
  EXPECT_EQ(PageLink("0.0.0.0:8790", "abc"), "http://127.0.0.1:8790/#token=abc");
  EXPECT_EQ(PageLink("[::]:8790", "abc"), "http://[::1]:8790/#token=abc");
  EXPECT_EQ(PageLink("192.168.1.5:8790", "abc"), "http://192.168.1.5:8790/");
}

TEST(PostGuard, LetsTheTokenInAgainAfterAMinute) {
  ManualClock clock;
  PostGuard guard(kToken, &clock);
  PostHeaders headers;
  headers.host = "localhost";
  headers.from_loopback = true;
  headers.content_type = "application/json";
  clock.Advance(std::chrono::hours(1));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(guard.Refuse(headers)->status, 403);
  headers.token = kToken;
  EXPECT_EQ(guard.Refuse(headers)->status, 429);
  clock.Advance(std::chrono::seconds(59));
  EXPECT_EQ(guard.Refuse(headers)->status, 429);
  clock.Advance(std::chrono::seconds(1));
  EXPECT_FALSE(guard.Refuse(headers).has_value());
  headers.from_loopback = false;  // a caller elsewhere, under any name
  EXPECT_EQ(guard.Refuse(headers)->status, 403);
  EXPECT_EQ(PostGuard("", &clock).Refuse(headers)->status, 405) << "no token is no open door";
}

TEST(HttpServerListen, RefusesOtherAddressesThanLoopbackAndTakenPorts) {
  const auto executor = NewThreadExecutor("control");
  const HttpHandlers handler = {[](const PageRequest&) { return HttpResponse{}; }};
  const auto open = NewHttpServer({.listen = "0.0.0.0:0"}, executor.get(), handler);
  ASSERT_FALSE(open.ok());
  EXPECT_NE(open.status().message().find("loopback only"), std::string::npos);
  const auto remote =
      NewHttpServer({.listen = "0.0.0.0:0", .allow_remote = true}, executor.get(), handler);
  ASSERT_TRUE(remote.ok()) << remote.status().ToString();
  const auto port = ParseHostPort((*remote)->address());
  ASSERT_TRUE(port.ok());
  EXPECT_NE(Get("127.0.0.1:" + std::to_string(port->port), "/", "peer-1").find("200"),
            std::string::npos);
  const auto first = NewHttpServer({.listen = "127.0.0.1:0"}, executor.get(), handler);
  ASSERT_TRUE(first.ok());
  const auto second = NewHttpServer({.listen = (*first)->address()}, executor.get(), handler);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find("cannot listen"), std::string::npos);
}

TEST(HostPort, ParsesAndFormats) {
  const auto v4 = ParseHostPort("127.0.0.1:80");
  ASSERT_TRUE(v4.ok());
  EXPECT_EQ(v4->host, "127.0.0.1");
  EXPECT_EQ(v4->port, 80);
  const auto v6 = ParseHostPort("[::1]:65535");
  ASSERT_TRUE(v6.ok());
  EXPECT_EQ(v6->host, "::1");
  EXPECT_EQ(FormatHostPort(*v6), "[::1]:65535");
  for (const char* bad : {"", ":1", "host", "host:", "host:65536", "host:-1", "::1:80", "[]:1",
                          "[::1:80", "host:1x", "host:000080"}) {
    EXPECT_FALSE(ParseHostPort(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace shoal::net
