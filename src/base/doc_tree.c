/* doc_tree.c: the members of an object as an AVL tree by name: balanced whatever the names are and whatever comes first. */
#include "base/buf.h"
#include "base/doc_node.h"

#include <assert.h>

static unsigned height(const pd_node *node)
{
  return node ? node->height : 0;
}

static void measure(pd_node *node)
{
  unsigned left = height(node->left), right = height(node->right);
  node->height = (uint8_t)((left > right ? left : right) + 1);
}

static pd_node *turn_right(pd_node *node)
{
  pd_node *top = node->left;
  node->left = top->right;
  top->right = node;
  measure(node);
  measure(top);
  return top;
}

static pd_node *turn_left(pd_node *node)
{
  pd_node *top = node->right;
  node->right = top->left;
  top->left = node;
  measure(node);
  measure(top);
  return top;
}

static pd_node *balance(pd_node *node)
{
  int lean = (int)height(node->left) - (int)height(node->right);
  if (lean > 1) {
    if (height(node->left->left) < height(node->left->right)) node->left = turn_left(node->left);
    return turn_right(node);
  }
  if (lean < -1) {
    if (height(node->right->right) < height(node->right->left)) node->right = turn_right(node->right);
    return turn_left(node);
  }
  measure(node);
  return node;
}

pd_node *pd_node_tree_find(pd_node *root, pd_bytes name)
{
  while (root) {
    int order = pd_bytes_compare(name, pd_node_name(root));
    if (order == 0) return root;
    root = order < 0 ? root->left : root->right;
  }
  return NULL;
}

static pd_node *insert(pd_node *root, pd_node *node)
{
  if (!root) return node;
  int order = pd_bytes_compare(pd_node_name(node), pd_node_name(root));
  assert(order != 0);
  if (order < 0)
    root->left = insert(root->left, node);
  else
    root->right = insert(root->right, node);
  return balance(root);
}

void pd_node_tree_insert(pd_node **root, pd_node *node)
{
  node->left = node->right = NULL;
  node->height = 1;
  *root = insert(*root, node);
}

/* The tree without its first node, which goes to *out. */
static pd_node *take_first(pd_node *root, pd_node **out)
{
  if (!root->left) {
    *out = root;
    return root->right;
  }
  root->left = take_first(root->left, out);
  return balance(root);
}

static pd_node *without(pd_node *root, const pd_node *node)
{
  assert(root);
  if (root != node) {
    if (pd_bytes_compare(pd_node_name(node), pd_node_name(root)) < 0)
      root->left = without(root->left, node);
    else
      root->right = without(root->right, node);
    return balance(root);
  }
  if (!root->right) return root->left;
  pd_node *next;
  pd_node *right = take_first(root->right, &next);
  next->left = root->left;
  next->right = right;
  return balance(next);
}

void pd_node_tree_remove(pd_node **root, pd_node *node)
{
  *root = without(*root, node);
  node->left = node->right = NULL;
}

void pd_node_tree_replace(pd_node **root, pd_node *old, pd_node *now)
{
  pd_node **at = root;
  while (*at != old) {
    assert(*at);
    at = pd_bytes_compare(pd_node_name(old), pd_node_name(*at)) < 0 ? &(*at)->left : &(*at)->right;
  }
  now->left = old->left;
  now->right = old->right;
  now->height = old->height;
  old->left = old->right = NULL;
  *at = now;
}
