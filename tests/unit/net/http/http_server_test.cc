#include "net/http/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "net/base/host_port.h"

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
    auto server =
        NewHttpServer({"127.0.0.1:0", false}, executor_.get(), [this](const std::string& path) {
          EXPECT_TRUE(executor_->InThread());
          if (path == "/hello") return HttpResponse{200, "text/plain", "hello\n"};
          return StatusPageOrNotFound(path);
        });
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(*server);
  }
  void TearDown() override { server_.reset(); }

  std::unique_ptr<Executor> executor_ = NewThreadExecutor("control");
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersOnTheExecutorAndForgetsTheQuery) {
  const std::string answer = Get(server_->address(), "/hello?x=1");
  EXPECT_NE(answer.find("200 OK"), std::string::npos) << answer;
  EXPECT_NE(answer.find("\r\n\r\nhello\n"), std::string::npos) << answer;
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

TEST(HttpServerListen, RefusesOtherAddressesThanLoopbackAndTakenPorts) {
  const auto executor = NewThreadExecutor("control");
  const auto handler = [](const std::string&) { return HttpResponse{}; };
  const auto open = NewHttpServer({"0.0.0.0:0", false}, executor.get(), handler);
  ASSERT_FALSE(open.ok());
  EXPECT_NE(open.status().message().find("loopback only"), std::string::npos);
  const auto remote = NewHttpServer({"0.0.0.0:0", true}, executor.get(), handler);
  ASSERT_TRUE(remote.ok()) << remote.status().ToString();
  const auto port = ParseHostPort((*remote)->address());
  ASSERT_TRUE(port.ok());
  EXPECT_NE(Get("127.0.0.1:" + std::to_string(port->port), "/", "peer-1").find("200"),
            std::string::npos);
  const auto first = NewHttpServer({"127.0.0.1:0", false}, executor.get(), handler);
  ASSERT_TRUE(first.ok());
  const auto second = NewHttpServer({(*first)->address(), false}, executor.get(), handler);
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
