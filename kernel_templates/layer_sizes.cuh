// What the templates' sizes are made of: an output's rows and columns, a filter's terms.

#define UP(a, b) (((a) + (b) - 1) / (b))
#define LEAST(a, b) ((a) < (b) ? (a) : (b))
#define H_OUT (LAYER_H - LAYER_K + 1)
#define W_OUT (LAYER_W - LAYER_K + 1)
#define FILTER (LAYER_K * LAYER_K)
