#include "data/windows.hpp"

#include <algorithm>
#include <cassert>

namespace collab::data {

namespace {

using Sentence = std::span<const std::uint32_t>;

struct Run {
  std::vector<Sentence> sentences;
  std::size_t tokens = 0;
};

std::vector<Sentence> cut_long(std::span<const std::vector<std::uint32_t>> sentences, std::size_t tokens_max) {
  std::vector<Sentence> pieces;
  for (Sentence rest : sentences)
    while (!rest.empty()) {
      const std::size_t size = std::min(rest.size(), tokens_max);
      pieces.push_back(rest.first(size));
      rest = rest.subspan(size);
    }
  return pieces;
}

std::vector<Run> greedy_runs(std::span<const Sentence> sentences, std::size_t tokens_max) {
  std::vector<Run> runs;
  for (const Sentence sentence : sentences) {
    if (runs.empty() || runs.back().tokens + sentence.size() > tokens_max) runs.emplace_back();
    runs.back().sentences.push_back(sentence);
    runs.back().tokens += sentence.size();
  }
  return runs;
}

void pair_singles(std::span<Run> runs, std::size_t tokens_max) {
  for (std::size_t index = 1; index < runs.size(); ++index) {
    Run& before = runs[index - 1];
    Run& run = runs[index];
    const std::size_t size = before.sentences.back().size();
    if (run.sentences.size() != 1 || before.sentences.size() < 3 || run.tokens + size > tokens_max) continue;
    run.sentences.insert(run.sentences.begin(), before.sentences.back());
    run.tokens += size;
    before.sentences.pop_back();
    before.tokens -= size;
  }
}

}  // namespace

void append_windows(WindowTable& table, std::span<const std::vector<std::uint32_t>> sentences, std::size_t tokens_max) {
  assert(tokens_max > 0);
  std::vector<Run> runs = greedy_runs(cut_long(sentences, tokens_max), tokens_max);
  pair_singles(runs, tokens_max);
  for (const Run& run : runs) {
    std::uint32_t end = 0;
    for (const Sentence sentence : run.sentences) {
      table.tokens.insert(table.tokens.end(), sentence.begin(), sentence.end());
      table.sentence_ends.push_back(end += static_cast<std::uint32_t>(sentence.size()));
    }
    table.first_token.push_back(table.tokens.size());
    table.first_sentence.push_back(table.sentence_ends.size());
  }
}

}  // namespace collab::data
