// InlineVector: a short list of plain values that needs no memory of its own while it is short.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>

namespace sonde {

template <typename Item, size_t kInline>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<Item>, "items are moved as bytes");

 public:
  using value_type = Item;

  InlineVector() noexcept = default;
  ~InlineVector() {
    if (items_ != own()) std::free(items_);
  }
  InlineVector(const InlineVector&) = delete;
  InlineVector& operator=(const InlineVector&) = delete;

  void push_back(const Item& item) {
    if (size_ == capacity_) grow();
    new (items_ + size_++) Item(item);
  }
  void pop_back() noexcept { --size_; }
  void clear() noexcept { size_ = 0; }

  size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  Item* data() noexcept { return items_; }
  const Item* data() const noexcept { return items_; }
  Item* begin() noexcept { return items_; }
  Item* end() noexcept { return items_ + size_; }
  const Item* begin() const noexcept { return items_; }
  const Item* end() const noexcept { return items_ + size_; }
  Item& operator[](size_t i) noexcept { return items_[i]; }
  const Item& operator[](size_t i) const noexcept { return items_[i]; }
  Item& back() noexcept { return items_[size_ - 1]; }
  const Item& back() const noexcept { return items_[size_ - 1]; }

 private:
  Item* own() noexcept { return reinterpret_cast<Item*>(inline_); }

  void grow() {
    const size_t capacity = 2 * capacity_;
    auto* items = static_cast<Item*>(std::malloc(capacity * sizeof(Item)));
    if (!items) throw std::bad_alloc();
    std::memcpy(static_cast<void*>(items), items_, size_ * sizeof(Item));
    if (items_ != own()) std::free(items_);
    items_ = items;
    capacity_ = capacity;
  }

  alignas(Item) char inline_[kInline * sizeof(Item)];
  Item* items_ = own();
  size_t size_ = 0;
  size_t capacity_ = kInline;
};

}  // namespace sonde
