// SPDX-License-Identifier: Apache-2.0
//
// Topknot in a training loop of one's own on libtorch: four ranks, here threads, learn the
// sum of their inputs. Between the two marks is all that is added before the loop; with
// topknot::make_mpi() the same runs on many machines.
#include <topknot/topknot.h>
#include <torch/torch.h>

#include <cstdio>
#include <thread>
#include <vector>

namespace {

void train(topknot::Transport& link, double& loss_at_the_end) {
  torch::nn::Linear model(64, 1);
  const std::vector<torch::Tensor> weights = model->parameters();
  for (const torch::Tensor& weight : weights)
    weight.data().zero_();  // alike on all ranks
  torch::optim::SGD optimizer(weights, torch::optim::SGDOptions(0.02));

  // ---- topknot
  topknot::Layout layout;
  for (const auto& one : model->named_parameters())
    layout.tensors.push_back({one.key(), 0, {one->sizes().begin(), one->sizes().end()}});
  topknot::Engine engine(link, layout, {.scheme = "knot", .density = 0.1});
  for (std::size_t i = 0; i < weights.size();
       ++i)  // gradients live in the engine's memory
    weights[i].mutable_grad() =
        torch::from_blob(engine.gradient(i).data(), weights[i].sizes());
  // ----

  auto draws = at::make_generator<at::CPUGeneratorImpl>(link.rank() + 1);
  for (int step = 0; step < 400; ++step) {
    const torch::Tensor inputs = torch::randn({32, 64}, draws);
    engine.begin();  // instead of optimizer.zero_grad()
    const torch::Tensor loss = torch::mse_loss(model(inputs), inputs.sum(1, true));
    loss.backward();
    if (engine.finish().finite)
      optimizer.step();  // every rank has the same mean gradient
    loss_at_the_end = loss.item<double>();
  }
}

}  // namespace

int main() {
  const auto links = topknot::make_inproc(4);
  std::vector<double> losses(links.size());
  std::vector<std::thread> ranks;
  for (std::size_t i = 0; i < links.size(); ++i)
    ranks.emplace_back([&, i] { train(*links[i], losses[i]); });
  for (std::thread& rank : ranks) rank.join();
  std::printf("loss %.6f\n", losses[0]);
  return losses[0] < 1 ? 0 : 1;  // 64 at the start
}
