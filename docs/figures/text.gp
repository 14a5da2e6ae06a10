# The plot of bits a byte in validation over the steps of training, a panel for each memory, HQLT in grey, from its table:
#   cd docs/figures && gnuplot text.gp
set datafile separator ","
set terminal svg size 1200,760 font "sans,10" background "white"
set output "text.svg"
memories = "hqlt hqlt_sum hqlt_delayed_stream hqlt_delayed_chunk hqlt_linear_transformer deltanet_window expansion_span transformer++ transformer gtrxl deltanet deltanet_convolution gated_deltanet delta_product kda linear_transformer_delta dpfp_delta performer_delta linear_transformer dpfp performer retnet gla mamba2 mlstm min_gru lru s5 rg_lru slstm lstm gru rnn ind_rnn lmu ffm frame_stack none"
bits(memory, seed) = strcol(1) eq memory && $2 == seed ? $4 : NaN
set multiplot layout 5,8 margins 0.04,0.99,0.05,0.96 spacing 0.012,0.05
set logscale x
set xrange [70:1600]
set yrange [1:5.5]
set tics nomirror scale 0.5
set border 3 lc rgb "#888888"
unset key
do for [i=1:words(memories)] {
  memory = word(memories, i)
  set title memory noenhanced offset 0,-0.7
  if (i % 8 == 1) { set ytics 1,1,5 format "%g" } else { set ytics 1,1,5 format "" }
  if (i > 30) { set xtics (100, 300, 1000) format "%g" } else { set xtics ("" 100, "" 300, "" 1000) }
  plot "reports/text_curves.csv" using 3:(bits("hqlt", 0)) every ::1 with lines lc rgb "#aaaaaa" lw 1.5, \
       for [seed=0:1] "" using 3:(bits(memory, seed)) every ::1 with lines lc rgb word("#1b6ca8 #d1722b", seed + 1) lw 1.5
}
unset multiplot
