// Ranks as threads of one program.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "ranks/ranks.h"

namespace engram {

// A port of this machine that nobody listens on.
inline std::uint16_t free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  const bool bound = socket >= 0 && ::bind(socket, reinterpret_cast<sockaddr*>(&address), bytes) == 0 &&
                     ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &bytes) == 0;
  if (socket >= 0) ::close(socket);
  if (!bound) throw std::runtime_error("no free port");
  return ntohs(address.sin_port);
}

// Runs `work` as every one of `size` ranks and waits for all; throws what the first of them that threw has thrown.
inline void in_threads(int size, const std::function<void(const std::shared_ptr<Ranks>&)>& work) {
  Launch launch{.size = size, .address = "127.0.0.1", .port = free_port()};
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        Launch own = launch;
        own.rank = rank;
        work(std::make_shared<Ranks>(own));
      } catch (...) {
        thrown[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& exception : thrown)
    if (exception) std::rethrow_exception(exception);
}

}  // namespace engram
