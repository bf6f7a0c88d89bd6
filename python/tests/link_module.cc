// SPDX-License-Identifier: Apache-2.0
//
// topknot_link: the c10d transport by itself, for link_cases.py. Built with the package when
// the tests ask for it, and never installed. Its errors are those that topknot._core has registered.

#include <torch/csrc/utils/pybind.h>

#include <map>

#include "topknot/error.h"
#include "transports/c10d/c10d.h"

namespace py = pybind11;

namespace topknot::python {
namespace {

using WithoutGil = py::call_guard<py::gil_scoped_release>;

/// Messages as bytes, each with its own memory.
class Link {
 public:
  Link(const std::string& group, double timeout)
      : link_(make_c10d(group, {}, {.timeout = timeout})) {}
  explicit Link(std::unique_ptr<Transport> link) : link_(std::move(link)) {}

  std::uint64_t send(int to, const std::string& text) {
    const auto view = std::as_bytes(std::span(text));
    const auto bytes =
        std::make_shared<const std::vector<std::byte>>(view.begin(), view.end());
    sent_[++last_] = bytes;
    pending_[last_] = link_->send_shared(to, bytes);
    return last_;
  }
  /// Whether the channel still holds the memory of a message that was sent.
  bool holds(std::uint64_t message) const { return !sent_.at(message).expired(); }
  std::uint64_t recv(int from, std::size_t limit) {
    pending_[last_ + 1] = link_->recv(from, memory_[last_ + 1], limit);
    return ++last_;
  }
  py::bytes wait(std::uint64_t message) {
    {
      const py::gil_scoped_release release;
      link_->wait(pending_.at(message));
    }
    const std::vector<std::byte> bytes = std::move(memory_[message]);
    memory_.erase(message);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  void fail(int peer, const std::string& sentence) {
    link_->fail(DisagreementError(peer, sentence));
  }
  void abandon() { link_->abandon(); }
  std::unique_ptr<Link> channel(int id) {
    return std::make_unique<Link>(link_->channel(id));
  }
  void allreduce(at::Tensor x) {
    if (!link_->allreduce({x.data_ptr<float>(), static_cast<std::size_t>(x.numel())}))
      throw ConfigError("There is no native allreduce.");
  }

 private:
  std::unique_ptr<Transport> link_;
  std::map<std::uint64_t, std::vector<std::byte>> memory_;
  std::map<std::uint64_t, std::weak_ptr<const std::vector<std::byte>>> sent_;
  std::map<std::uint64_t, Pending> pending_;
  std::uint64_t last_ = 0;
};

}  // namespace
}  // namespace topknot::python

PYBIND11_MODULE(topknot_link, m) {
  using namespace topknot::python;
  py::class_<Link>(m, "Link")
      .def(py::init<const std::string&, double>(), py::arg("group"), py::arg("timeout"),
           WithoutGil())
      .def("send", &Link::send, py::arg("to"), py::arg("data"))
      .def("recv", &Link::recv, py::arg("source"), py::arg("limit"))
      .def("wait", &Link::wait, py::arg("message"))
      .def("holds", &Link::holds, py::arg("message"))
      .def("fail", &Link::fail, py::arg("peer"), py::arg("sentence"), WithoutGil())
      .def("abandon", &Link::abandon, WithoutGil())
      .def("channel", &Link::channel, py::arg("id"))
      .def("allreduce", &Link::allreduce, py::arg("tensor"), WithoutGil());
}
