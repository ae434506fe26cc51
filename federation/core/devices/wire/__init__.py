"""The texts that nodes, pods and Jobs carry about cards, both ways, and the table of vendors."""
